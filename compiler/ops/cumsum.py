# SPDX-License-Identifier: Apache-2.0
"""CUMSUM: running sums along an axis, in order. int32 and int64 wrap.

Source: TensorFlow Lite, kernels/cumsum.cc; for int8 TensorFlow Lite Micro, kernels/cumsum.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable.along import RunningSumKernel, lines, running_sum
from compiler.kernels.portable.loops import ELEMENTS
from compiler.kernels.portable.raw_sums import RescaledRunningSumKernel
from compiler.ops.axis import axis_of, one_axis
from compiler.ops.constraints import (
    Q8,
    constant,
    dtypes,
    inputs_between,
    output_dtype_as_input,
    same_shape,
)
from compiler.ops.definition import Array, OperatorDefinition, OperatorView
from compiler.ops.raw_sums import RawSums, raw_sum_constraints


@dataclass(frozen=True)
class CumsumAttributes:
    """Options of CUMSUM: `exclusive` leaves an element out of its own sum, `reverse` sums from the end."""

    exclusive: bool = False
    reverse: bool = False


def parse(options: Any) -> CumsumAttributes:
    return CumsumAttributes() if options is None else CumsumAttributes(options.Exclusive(), options.Reverse())


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    x, source = inputs[0], view.input()
    assert x is not None
    if source.dtype is not Q8:
        return [_sums(view, x, 0)]
    totals = _sums(view, x.astype(np.int64) - source.zero_point, -source.zero_point)
    return [RawSums(source, view.output()).rescaled(totals).astype(np.int8)]


def _sums(view: OperatorView, x: Array, start: int) -> Array:
    rows = np.moveaxis(x, axis_of(view), 0)
    total, sums = np.full(rows.shape[1:], start, x.dtype), np.zeros(rows.shape, x.dtype)
    with np.errstate(all="ignore"):
        for position in range(len(rows))[:: -1 if view.attributes.reverse else 1]:
            following = total + rows[position]
            sums[position] = total if view.attributes.exclusive else following
            total = following
    return np.moveaxis(sums, 0, axis_of(view))


def lower(view: OperatorView, isa: Isa) -> Lowered:
    source, attributes = view.input(), view.attributes
    along, form = lines(source.shape, axis_of(view)), (ELEMENTS[source.dtype], attributes.exclusive, attributes.reverse)
    if source.dtype is not Q8:
        return running_sum(RunningSumKernel(isa, *form), along)
    numbers = (source.zero_point, *RawSums(source, view.output()).numbers)
    return running_sum(RescaledRunningSumKernel(isa, *form), along, numbers)


DEFINITIONS = (
    OperatorDefinition(
        "CUMSUM",
        parse,
        (
            inputs_between(2, 2),
            dtypes(0, Q8, DType.INT32, DType.INT64, DType.FLOAT32),
            output_dtype_as_input(),
            constant(1, "The axis"),
            one_axis,
            same_shape,
            *raw_sum_constraints(lambda view: view.input().shape[axis_of(view)]),
        ),
        reference,
        lower,
    ),
)
