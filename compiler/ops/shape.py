# SPDX-License-Identifier: Apache-2.0
"""SHAPE: the shape of a tensor. Shapes are known when a model is compiled, so it always folds to a constant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.ops.constraints import inputs_between
from compiler.ops.definition import Array, OperatorDefinition, OperatorView, no_options


def integer_output(view: OperatorView) -> str | None:
    """The output is INT32 or INT64, with an element for each axis."""
    output, rank = view.output(), len(view.input().shape)
    if output.dtype in (DType.INT32, DType.INT64) and output.shape == (rank,):
        return None
    return f"output {output.dtype.name} {list(output.shape)} for {rank} axes"


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    del inputs
    return [np.array(view.input().shape, view.output().dtype.numpy)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    raise ValueError(f"{view.operator}: a shape was not folded")


DEFINITIONS = (OperatorDefinition("SHAPE", no_options, (inputs_between(1, 1), integer_output), reference, lower),)
