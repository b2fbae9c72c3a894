# SPDX-License-Identifier: Apache-2.0
"""What LOGISTIC and TANH have in common: their integer forms.

Source: TensorFlow Lite Micro, kernels/{logistic_common,tanh}.cc; TensorFlow Lite,
kernels/internal/reference/integer_ops/{logistic,tanh}.h, kernels/internal/reference/{logistic,tanh}.h.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from compiler import fixed_point
from compiler.graph import DType, Tensor
from compiler.kernels.portable.maps import SIGMOID_STEPS, sigmoid_table
from compiler.numerics import multiply_by_quantized_multiplier, quantize_multiplier
from compiler.ops.definition import Array, OperatorView

INPUT_INTEGER_BITS = 4


def fixed_point_bytes(source: Tensor, function: Callable[[Array, int], Array], output_bits: int, offset: int) -> Array:
    """int8 outputs [256] for the inputs -128..127: `function` of Q4 values to Q0, of which `output_bits` are kept."""
    multiplier, shift = quantize_multiplier(source.scale * (1 << (31 - INPUT_INTEGER_BITS)))
    radius = fixed_point.input_radius(INPUT_INTEGER_BITS, shift)
    inputs = np.arange(-128, 128) - source.zero_point
    inside = np.abs(inputs) < radius
    scaled = multiply_by_quantized_multiplier(np.where(inside, inputs, 0), multiplier, shift)
    values = fixed_point.rounding_shift(function(scaled, INPUT_INTEGER_BITS), 31 - output_bits) + offset
    result = np.where(inside, np.clip(values, -128, 127), np.where(inputs < 0, -128, 127))
    return result.astype(np.int8)


def int16_scaling(source: Tensor, plain_shifts: tuple[int, ...]) -> tuple[int, int]:
    """(multiplier, right shift) of an int16 input to steps of 1/12288. Scales of a power of two whose left shift to
    2**-12 is in `plain_shifts` are exact."""
    log2 = math.log2(source.scale)
    left = 12 + round(log2)
    # The reference takes a scale for a power of two where its logarithm is within 0.001 of an integer.
    if abs(log2 - round(log2)) < 1e-3 and left in plain_shifts:
        return 3 << left, 0
    multiplier, shift = source.scale * 4096.0 * 3.0, 0
    while multiplier <= 32767.0 / 2.0 and shift <= 30:
        multiplier, shift = multiplier * 2.0, shift + 1
    return int(multiplier), shift


def int16_values(x: Array, multiplier: int, shift: int, is_tanh: bool) -> NDArray[np.int64]:
    """The reference's int16 outputs: interpolation in a table of sigmoid(i / 24)."""
    rounding = 1 << (shift - 1) if shift else 0
    scaled = (x.astype(np.int64) * multiplier + rounding) >> shift
    bits = 8 if is_tanh else 9
    index, table = np.abs(scaled) >> bits, sigmoid_table().astype(np.int64)
    saturated = index >= SIGMOID_STEPS - 1
    index = np.where(saturated, 0, index)
    curve = (table[index] << bits) + (np.abs(scaled) & ((1 << bits) - 1)) * (table[index + 1] - table[index])
    curve = np.where(saturated, 0xFFFF << 8 if is_tanh else 0x7FFF << 10, curve)
    if is_tanh:
        return np.where(scaled >= 0, curve - (1 << 23) + 128, (1 << 23) - curve + 127) >> 8
    return np.where(scaled >= 0, curve + 512, (1 << 25) - curve + 511) >> 10


def output_range(view: OperatorView, zero_points: dict[DType, int], scales: dict[DType, float]) -> str | None:
    """None where a quantised output has the given zero point and scale for its type."""
    output = view.output()
    if output.dtype is DType.FLOAT32:
        return None
    zero_point, scale = zero_points.get(output.dtype), scales.get(output.dtype)
    if (zero_point is None or output.zero_point == zero_point) and (
        scale is None or abs(output.scale - scale) <= 0.001 * scale
    ):
        return None
    return f"scale {output.scale:.6g} zero point {output.zero_point}"
