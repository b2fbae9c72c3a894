# SPDX-License-Identifier: Apache-2.0
"""SPLIT and SPLIT_V: a tensor cut along an axis, into equal parts or parts of given sizes (-1: the rest).

Source: TensorFlow Lite Micro, kernels/split.cc, split_v.cc.
"""

from __future__ import annotations

import numpy as np

from compiler.ops.constraints import constant, stated
from compiler.ops.definition import Array, Constraint, OperatorDefinition, OperatorView, no_options
from compiler.ops.moving import moving


def _axis(view: OperatorView, position: int) -> int:
    return int(view.input(position).constant.reshape(-1)[0])


def _operands(count: int, axis: int) -> Constraint:
    def check(view: OperatorView) -> str | None:
        if len(view.inputs) != count or None in view.inputs:
            return f"{len(view.inputs)} inputs, {view.inputs.count(None)} of them absent"
        return None if view.input(axis).elements == 1 else f"an axis of {view.input(axis).elements} numbers"

    return stated(f"There are {count} inputs, and the axis is one number.", check)


def sizes_fit(view: OperatorView) -> str | None:
    """There is a size, not negative or once -1 for the rest, for each output."""
    sizes = view.input(1).constant.reshape(-1).tolist()
    good = len(sizes) == len(view.operator.outputs) and sizes.count(-1) <= 1 and min(sizes, default=0) >= -1
    return None if good else f"sizes {sizes} of {len(view.operator.outputs)} outputs"


def sizes_add_up(view: OperatorView) -> str | None:
    """The axis exists, and the sizes add up to its length."""
    shape, axis = view.input().shape, _axis(view, 2)
    if not -len(shape) <= axis < len(shape):
        return f"axis {axis} of {list(shape)}"
    sizes = view.input(1).constant.reshape(-1).tolist()
    known = sum(size for size in sizes if size >= 0)
    good = known <= shape[axis] if -1 in sizes else known == shape[axis]
    return None if good else f"sizes {sizes} of axis {axis} of {list(shape)}"


def equal_parts(view: OperatorView) -> str | None:
    """The outputs cut an axis into equal parts."""
    shape, axis, count = view.input(1).shape, _axis(view, 0), len(view.operator.outputs)
    good = -len(shape) <= axis < len(shape) and shape[axis] % count == 0
    return None if good else f"{count} parts of axis {axis} of {list(shape)}"


def move_split(view: OperatorView, x: Array) -> list[Array]:
    return np.split(x, len(view.operator.outputs), _axis(view, 0))


def move_split_v(view: OperatorView, x: Array) -> list[Array]:
    axis, sizes = _axis(view, 2), view.input(1).constant.reshape(-1).tolist()
    rest = x.shape[axis] - sum(size for size in sizes if size >= 0)
    sizes = [rest if size < 0 else size for size in sizes]
    return np.split(x, np.cumsum(sizes)[:-1].tolist(), axis)


DEFINITIONS: tuple[OperatorDefinition, ...] = (
    moving("SPLIT", no_options, (_operands(2, 0), constant(0, "The axis"), equal_parts), move_split, position=1),
    moving(
        "SPLIT_V",
        no_options,
        (_operands(3, 2), constant(1, "The sizes"), constant(2, "The axis"), sizes_fit, sizes_add_up),
        move_split_v,
    ),
)
