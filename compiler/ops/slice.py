# SPDX-License-Identifier: Apache-2.0
"""SLICE: a block of a tensor; size -1 takes the rest of an axis.

Source: TensorFlow Lite Micro, kernels/slice.cc.
"""

from __future__ import annotations

from compiler.ops.constraints import constant, inputs_between
from compiler.ops.definition import Array, OperatorView, no_options
from compiler.ops.moving import moving


def ranges(view: OperatorView) -> list[slice]:
    """The cells taken of each axis."""
    begin, size = (view.input(i).constant.reshape(-1).tolist() for i in (1, 2))
    bounds = zip(begin, size, view.input().shape, strict=True)
    return [slice(first, length if count < 0 else first + count) for first, count, length in bounds]


def inside(view: OperatorView) -> str | None:
    """The begin and size have an entry for each axis, and the block lies inside the input."""
    shape = view.input().shape
    begin, size = (view.input(i).constant.reshape(-1).tolist() for i in (1, 2))
    good = len(begin) == len(size) == len(shape) and min(size, default=0) >= -1
    good = good and all(0 <= r.start <= r.stop <= length for r, length in zip(ranges(view), shape, strict=True))
    return None if good else f"begin {begin}, size {size} of {list(shape)}"


def move(view: OperatorView, x: Array) -> list[Array]:
    return [x[tuple(ranges(view))]]


DEFINITIONS = (
    moving(
        "SLICE",
        no_options,
        (
            inputs_between(3, 3),
            constant(1, "The begin"),
            constant(2, "The size"),
            inside,
        ),
        move,
    ),
)
