# SPDX-License-Identifier: Apache-2.0
"""TRANSPOSE: axes in another order.

Source: TensorFlow Lite Micro, kernels/transpose.cc.
"""

from __future__ import annotations

import numpy as np

from compiler.ops.constraints import constant, inputs_between
from compiler.ops.definition import Array, OperatorView, no_options
from compiler.ops.moving import moving


def permutation(view: OperatorView) -> str | None:
    """The order names each axis once."""
    order, rank = view.input(1).constant.reshape(-1).tolist(), len(view.input().shape)
    named = sorted(axis + rank if axis < 0 else axis for axis in order)
    return None if named == list(range(rank)) else f"order {order} of {rank} axes"


def move(view: OperatorView, x: Array) -> list[Array]:
    return [np.transpose(x, view.input(1).constant.reshape(-1).tolist())]


DEFINITIONS = (moving("TRANSPOSE", no_options, (inputs_between(2, 2), constant(1, "The order"), permutation), move),)
