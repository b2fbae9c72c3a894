# SPDX-License-Identifier: Apache-2.0
"""ONE_HOT: for each index a line of one value, in which the cell with that index has another. An index outside the
line marks nothing.

Source: TensorFlow Lite, kernels/one_hot.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import OUTPUT, KernelCall, Lowered
from compiler.kernels.portable.copies import UNITS
from compiler.kernels.portable.one_hot import OneHotKernel
from compiler.ops.broadcast import operand
from compiler.ops.constraints import constant, dtypes, inputs_between
from compiler.ops.definition import Array, OperatorDefinition, OperatorView
from compiler.ops.moving import MOVABLE, fill_with, moderate_size


@dataclass(frozen=True)
class OneHotAttributes:
    """Options of ONE_HOT: where the lines' axis goes, -1 for last."""

    axis: int = -1


def parse(options: Any) -> OneHotAttributes:
    return OneHotAttributes() if options is None else OneHotAttributes(options.Axis())


def scalars(view: OperatorView) -> str | None:
    """Depth, on and off value are scalars, and the values have the output's type, of at most 4 bytes."""
    depth, on, off = (view.input(position) for position in (1, 2, 3))
    kind = view.output().dtype
    good = depth.elements == on.elements == off.elements == 1 and kind in MOVABLE and kind.bytes <= 4
    good = good and on.dtype is off.dtype is kind and depth.dtype is DType.INT32
    return None if good else f"depth {depth}, values {on} and {off}, output {kind.name}"


def lines_inserted(view: OperatorView) -> str | None:
    """The output has the indices' axes, and among them one of depth cells."""
    indices, output = view.input().shape, view.output().shape
    axis, depth = view.attributes.axis, int(view.input(1).constant.reshape(-1)[0])
    at = len(indices) if axis == -1 else axis
    good = 0 <= at <= len(indices) and depth > 0 and 0 not in indices
    expected = (*indices[:at], depth, *indices[at:])
    return None if good and output == expected else f"{list(indices)} by {depth} at {axis}, output {list(output)}"


def _axis(view: OperatorView) -> int:
    axis: int = view.attributes.axis
    return len(view.input().shape) if axis == -1 else axis


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    indices, depth, on, off = (np.asarray(x) for x in inputs)
    axis = _axis(view)
    cells = np.arange(depth.item()).reshape(-1, *[1] * (indices.ndim - axis))
    return [np.where(np.expand_dims(indices, axis) == cells, on.reshape(()), off.reshape(()))]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    shape, size, axis = view.output().shape, view.output().dtype.bytes, _axis(view)
    on, off = (view.input(position).constant.reshape(()) for position in (2, 3))
    kernel = OneHotKernel(isa, UNITS[size], view.input().dtype.bytes)
    inner = prod(shape[axis + 1 :])
    value = int.from_bytes(on.tobytes(), "little", signed=True)
    numbers = prod(shape[:axis]), shape[axis], inner, value, shape[axis] * inner * size
    marks = KernelCall(kernel, (operand(view, 0), OUTPUT, *numbers))
    return Lowered((fill_with(isa, OUTPUT, prod(shape), off), marks))


DEFINITIONS = (
    OperatorDefinition(
        "ONE_HOT",
        parse,
        (
            inputs_between(4, 4),
            dtypes(0, DType.INT32, DType.INT64),
            constant(1, "The depth"),
            constant(2, "The on value"),
            constant(3, "The off value"),
            scalars,
            lines_inserted,
            moderate_size,
        ),
        reference,
        lower,
    ),
)
