# SPDX-License-Identifier: Apache-2.0
"""SHAPE and RANK of a tensor."""

from __future__ import annotations

import numpy as np

from compiler.graph import DType
from compiler.ops.definition import OperatorView
from compiler.ops.folded import of_shapes


def integer_vector(view: OperatorView) -> str | None:
    """The output is INT32 or INT64, with an element for each axis."""
    output, rank = view.output(), len(view.input().shape)
    good = output.dtype in (DType.INT32, DType.INT64) and output.shape == (rank,)
    return None if good else f"output {output.dtype.name} {list(output.shape)} for {rank} axes"


def integer_scalar(view: OperatorView) -> str | None:
    """The output is an INT32 scalar."""
    output = view.output()
    good = output.dtype is DType.INT32 and output.shape == ()
    return None if good else f"output {output.dtype.name} {list(output.shape)}"


DEFINITIONS = (
    of_shapes("SHAPE", (integer_vector,), lambda view: np.array(view.input().shape)),
    of_shapes("RANK", (integer_scalar,), lambda view: np.array(len(view.input().shape))),
)
