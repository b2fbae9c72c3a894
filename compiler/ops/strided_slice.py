# SPDX-License-Identifier: Apache-2.0
"""STRIDED_SLICE with constant bounds, all masks, and strides of both signs.

Source: TensorFlow Lite, kernels/internal/strided_slice_logic.h, kernels/strided_slice.cc.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compiler.ops.constraints import constant, inputs_between
from compiler.ops.definition import Array, OperatorView
from compiler.ops.moving import moving


@dataclass(frozen=True)
class StridedSliceAttributes:
    """Options of STRIDED_SLICE: bit i of a mask speaks of entry i of begin, end and strides."""

    begin_mask: int = 0
    end_mask: int = 0
    ellipsis_mask: int = 0
    new_axis_mask: int = 0
    shrink_axis_mask: int = 0


def parse(options: Any) -> StridedSliceAttributes:
    if options is None:
        return StridedSliceAttributes()
    return StridedSliceAttributes(
        options.BeginMask(),
        options.EndMask(),
        options.EllipsisMask(),
        options.NewAxisMask(),
        options.ShrinkAxisMask(),
    )


def entries(view: OperatorView) -> tuple[list[int], list[int], list[int]]:
    """begin, end, strides."""
    begin, end, strides = (view.input(i).constant.reshape(-1).tolist() for i in (1, 2, 3))
    return begin, end, strides


def slices(view: OperatorView) -> list[range]:
    """The cells taken of each input axis, in order; a shrunk axis has one. Source's index arithmetic: bounds count
    from the end where negative, and are clamped to the axis."""
    a: StridedSliceAttributes = view.attributes
    begin, end, strides = entries(view)
    shape = view.input().shape
    plain = sum(1 for i in range(len(begin)) if not (a.new_axis_mask | a.ellipsis_mask) >> i & 1)
    taken: list[range] = []
    for i, (first, last, step) in enumerate(zip(begin, end, strides, strict=True)):
        if a.ellipsis_mask >> i & 1:
            taken += [range(size) for size in shape[len(taken) : len(taken) + len(shape) - plain]]
        elif not a.new_axis_mask >> i & 1:
            size = shape[len(taken)]
            if a.shrink_axis_mask >> i & 1:
                at = first + size if first < 0 else first
                taken.append(range(at, at + 1))
            else:
                low = None if a.begin_mask >> i & 1 else first
                taken.append(range(*slice(low, None if a.end_mask >> i & 1 else last, step).indices(size)))
    return taken + [range(size) for size in shape[len(taken) :]]


def sound_entries(view: OperatorView) -> str | None:
    """The begin, end and strides have one entry for each axis or new axis at most, no stride 0, and one ellipsis at
    most, which is last or stands for an axis; a shrunk axis names a cell that exists."""
    a: StridedSliceAttributes = view.attributes
    begin, end, strides = entries(view)
    shape = view.input().shape
    plain = [i for i in range(len(begin)) if not (a.new_axis_mask | a.ellipsis_mask) >> i & 1]
    if not len(begin) == len(end) == len(strides) or len(plain) > len(shape):
        return f"begin {begin}, end {end}, strides {strides} of {list(shape)}"
    ellipses = [i for i in range(len(begin)) if a.ellipsis_mask >> i & 1]
    idle = len(plain) == len(shape) and any(i < len(begin) - 1 for i in ellipses)
    if 0 in strides or len(ellipses) > 1 or idle:
        return f"strides {strides}, ellipsis mask {a.ellipsis_mask}"
    taken = slices(view)
    outside = any(len(r) and not (0 <= r[0] < size and 0 <= r[-1] < size) for r, size in zip(taken, shape, strict=True))
    return f"begin {begin} of {list(shape)}" if outside else None


def sliced_shape(view: OperatorView) -> str | None:
    """The output holds the cells taken, and is not empty."""
    count = 1
    for taken in slices(view):
        count *= len(taken)
    return None if count and view.output().elements == count else f"{count} cells to {list(view.output().shape)}"


def move(view: OperatorView, x: Array) -> list[Array]:
    for axis, taken in enumerate(slices(view)):
        x = x.take(list(taken), axis=axis)
    return [x.reshape(view.output().shape)]


DEFINITIONS = (
    moving(
        "STRIDED_SLICE",
        parse,
        (
            inputs_between(4, 4),
            constant(1, "The begin"),
            constant(2, "The end"),
            constant(3, "The strides"),
            sound_entries,
            sliced_shape,
        ),
        move,
    ),
)
