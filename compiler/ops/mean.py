# SPDX-License-Identifier: Apache-2.0
"""MEAN and SUM over any axes.

Source: TensorFlow Lite Micro, kernels/reduce_common.cc; TensorFlow Lite, kernels/internal/reference/reduce.h
(QuantizedMeanOrSum).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable.loops import ELEMENTS
from compiler.kernels.portable.reduce import IntegerFinish, Reduction, reduce_float, reduce_integer, reduction
from compiler.numerics import multiply_by_quantized_multiplier, quantize_multiplier
from compiler.ops.activation import INTEGER_RANGE
from compiler.ops.constraints import (
    FLOAT,
    Q8,
    Q16,
    constant,
    dtypes,
    inputs_between,
    int16_zero_points_are_zero,
    output_dtype_as_input,
    quantized_per_tensor,
)
from compiler.ops.definition import Array, OperatorDefinition, OperatorView
from compiler.ops.reducing import axes_exist, axes_of, few_loops, parse, reduced_shape


def integer_finish(view: OperatorView, r: Reduction, mean: bool) -> IntegerFinish:
    """How sums become outputs: the division by the count is part of the multiplier."""
    source, output = view.input(), view.output()
    multiplier, shift = quantize_multiplier(source.scale / output.scale)
    if mean:
        reduced = min(r.count.bit_length() - 1, 32, 31 + shift)
        multiplier, shift = (multiplier << reduced) // r.count, shift - reduced
    lowest, highest = INTEGER_RANGE[source.dtype]
    largest = r.count * max(highest - source.zero_point, source.zero_point - lowest)
    start = -source.zero_point * r.count
    return IntegerFinish(start, multiplier, shift, output.zero_point, *INTEGER_RANGE[output.dtype], largest)


def moderate_sums(mean: bool) -> Any:
    def check(view: OperatorView) -> str | None:
        """Sums of quantised inputs stay below 2**31, and rescaled results below 2**30."""
        if not view.input().dtype.is_integer:
            return None
        finish = integer_finish(view, reduction(view.input().shape, axes_of(view)), mean)
        left = max(finish.shift, 0)
        result = int(finish.largest * finish.multiplier * 2.0 ** (finish.shift - 31))
        if finish.largest << left < 1 << 31 and result < 1 << 30:
            return None
        return f"sums up to {finish.largest}, results up to {result}"

    return check


def _definition(name: str, mean: bool, *types: DType) -> OperatorDefinition:
    def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
        x, output, axes = inputs[0], view.output(), tuple(sorted(axes_of(view)))
        assert x is not None
        r = reduction(view.input().shape, frozenset(axes))
        if output.dtype is DType.FLOAT32:
            kept = [axis for axis in range(x.ndim) if axis not in axes]
            rows = x.transpose([*kept, *axes]).reshape(-1, r.count)
            total = np.zeros(len(rows), np.float32)
            for column in range(r.count):
                total += rows[:, column]
            divisor = np.float32(r.count if mean else 1)
            return [np.asarray(total / divisor, np.float32).reshape(output.shape)]
        finish = integer_finish(view, r, mean)
        sums = x.astype(np.int64).sum(axis=axes) + finish.start
        scaled = multiply_by_quantized_multiplier(sums, finish.multiplier, finish.shift) + finish.zero_point
        clamped = np.clip(scaled, finish.minimum, finish.maximum)
        return [clamped.astype(output.dtype.numpy).reshape(output.shape)]

    def lower(view: OperatorView, isa: Isa) -> Lowered:
        r = reduction(view.input().shape, axes_of(view))
        if view.input().dtype is DType.FLOAT32:
            return reduce_float(isa, r, np.float32(r.count if mean else 1).tobytes())
        return reduce_integer(isa, r, ELEMENTS[view.input().dtype], integer_finish(view, r, mean))

    constraints = (
        inputs_between(2, 2),
        dtypes(0, *types),
        dtypes(1, DType.INT32),
        output_dtype_as_input(),
        constant(1, "The axes"),
        axes_exist,
        reduced_shape,
        few_loops,
        quantized_per_tensor(0),
        int16_zero_points_are_zero,
        moderate_sums(mean),
    )
    return OperatorDefinition(name, parse, constraints, reference, lower)


DEFINITIONS = (_definition("MEAN", True, Q8, DType.UINT8, Q16, FLOAT), _definition("SUM", False, Q8, FLOAT))
