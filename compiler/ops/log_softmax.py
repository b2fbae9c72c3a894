# SPDX-License-Identifier: Apache-2.0
"""LOG_SOFTMAX over the last axis: (x - largest) - log(sum of exp(x - largest)). int8 by the reference's fixed-point
exponential and logarithm.

Source: TensorFlow Lite, kernels/internal/reference/log_softmax.h; TensorFlow Lite Micro, kernels/log_softmax.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler import fixed_point, float_numerics
from compiler.codegen.requantize import split_shift
from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable import rows, softmax
from compiler.kernels.portable.arrays import evaluate
from compiler.kernels.portable.fixed_point_ir import logarithm
from compiler.numerics import multiply_by_quantized_multiplier, quantize_multiplier
from compiler.ops.constraints import (
    FLOAT,
    Q8,
    dtypes,
    inputs_between,
    output_dtype_as_input,
    quantized_per_tensor,
    same_shape,
)
from compiler.ops.definition import Array, OperatorDefinition, OperatorView, no_options


def has_a_last_axis(view: OperatorView) -> str | None:
    """The input has at least one axis and one element."""
    shape = view.input().shape
    return None if shape and min(shape) > 0 else f"shape {list(shape)}"


def output_range(view: OperatorView) -> str | None:
    """A quantised output has scale 1/16 and zero point 127."""
    output = view.output()
    if output.dtype is FLOAT or (output.scale, output.zero_point) == (1 / 16, 127):
        return None
    return f"scale {output.scale:g} zero point {output.zero_point}"


def moderate_depth(view: OperatorView) -> str | None:
    """The last axis of an INT8 input has less than 4,096 elements, which the sum of exponentials holds, and its scale
    is above 2**-20 and below 2."""
    source = view.input()
    if source.dtype is FLOAT or (source.shape[-1] < 4096 and 2.0**-20 < source.scale < 2):
        return None
    return f"{source.shape[-1]} elements of scale {source.scale:g}"


def scalings(view: OperatorView) -> tuple[tuple[int, int], tuple[int, int], int]:
    """(multiplier, left shift) of a difference to Q5; the same back; the least difference whose exponential counts."""
    multiplier, left = fixed_point.softmax_scaling(1.0, view.input().scale)
    reverse = quantize_multiplier((1 << (31 - left)) / multiplier)
    return (multiplier, left), reverse, -fixed_point.input_radius(5, left)


def exponentials(view: OperatorView) -> Array:
    """exp of the differences 0, -1, ... -255 in Q0, 0 below the least that counts."""
    (multiplier, left), _, least = scalings(view)
    differences = -np.arange(256)
    inside = differences >= least
    scaled = multiply_by_quantized_multiplier(np.where(inside, differences, 0), multiplier, left)
    return np.where(inside, fixed_point.exp_on_negative_values(scaled, 5), 0)


def quantized(view: OperatorView, x: Array) -> Array:
    """int8 rows [rows, depth]."""
    (multiplier, left), reverse, least = scalings(view)
    differences = x.astype(np.int64) - x.max(axis=1, keepdims=True)
    powers = fixed_point.rounding_shift(exponentials(view)[-differences], 12)
    total = powers.sum(axis=1, keepdims=True).astype(np.int32)
    log_sum = evaluate(lambda f, isa, z, _: logarithm(f, isa, z[0]), [total]).astype(np.int64)
    reach = multiply_by_quantized_multiplier(log_sum - (1 << 31), *reverse)
    inside = differences > np.maximum(least - 1, reach)
    scaled = multiply_by_quantized_multiplier(np.where(inside, differences, 0), multiplier, left)
    result = fixed_point.rounding_shift(scaled - log_sum, 31 - 5 - 4) + 127
    return np.where(inside, np.clip(result, -128, 127), -128).astype(np.int8)


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    (x,) = inputs
    assert x is not None
    lines = x.reshape(-1, x.shape[-1])
    found = float_numerics.log_softmax(lines) if x.dtype == np.float32 else quantized(view, lines)
    return [found.reshape(x.shape)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    source = view.input()
    depth = source.shape[-1]
    count = source.elements // depth
    if source.dtype is FLOAT:
        return softmax.float_log_softmax(isa, count, depth)
    scaling, (reverse, shift), least = scalings(view)
    numbers = (*scaling, reverse, *split_shift(shift))
    return rows.byte_log_softmax(isa, count, depth, exponentials(view), least - 1, numbers)


DEFINITIONS = (
    OperatorDefinition(
        "LOG_SOFTMAX",
        no_options,
        (
            inputs_between(1, 1),
            dtypes(0, Q8, FLOAT),
            output_dtype_as_input(),
            same_shape,
            has_a_last_axis,
            quantized_per_tensor(0),
            output_range,
            moderate_depth,
        ),
        reference,
        lower,
    ),
)
