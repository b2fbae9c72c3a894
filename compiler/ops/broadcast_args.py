# SPDX-License-Identifier: Apache-2.0
"""BROADCAST_ARGS: the shape that two shapes broadcast to.

Source: TensorFlow Lite Micro, kernels/broadcast_args.cc.
"""

from __future__ import annotations

import numpy as np

from compiler.graph import DType
from compiler.ops.definition import Array, OperatorView
from compiler.ops.folded import of_constants


def compatible(view: OperatorView) -> str | None:
    """The inputs are INT32 or INT64 vectors that broadcast, and the output is of their type and length."""
    first, second, output = view.input(0), view.input(1), view.output()
    good = first.dtype is second.dtype is output.dtype and output.dtype in (DType.INT32, DType.INT64)
    try:
        good = good and joint(view).shape == output.shape
    except ValueError:
        good = False
    return None if good else f"{first.constant.tolist()} and {second.constant.tolist()} to {list(output.shape)}"


def joint(view: OperatorView) -> Array:
    shapes = [tuple(view.input(position).constant.reshape(-1).tolist()) for position in range(2)]
    return np.array(np.broadcast_shapes(*shapes))


DEFINITIONS = (of_constants("BROADCAST_ARGS", ("A shape", "A shape"), (compatible,), joint),)
