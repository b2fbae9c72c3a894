# SPDX-License-Identifier: Apache-2.0
"""LOGISTIC and TANH, which are one operator but for their constants.

Source: TensorFlow Lite Micro, kernels/{logistic_common,tanh}.cc; TensorFlow Lite,
kernels/internal/reference/integer_ops/{logistic,tanh}.h, kernels/internal/reference/{logistic,tanh}.h.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compiler import fixed_point
from compiler.graph import DType, Tensor
from compiler.isa import Isa
from compiler.kernels.floats.functions import FloatFunction
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable import maps
from compiler.kernels.portable.maps import SIGMOID_STEPS, sigmoid_table
from compiler.numerics import multiply_by_quantized_multiplier, quantize_multiplier
from compiler.ops import bands, byte_tables
from compiler.ops.constraints import (
    FLOAT,
    Q8,
    Q16,
    dtypes,
    inputs_between,
    int16_zero_points_are_zero,
    output_dtype_as_input,
    quantized_per_tensor,
    same_shape,
)
from compiler.ops.definition import Array, Constraint, OperatorDefinition, OperatorView, no_options

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


@dataclass(frozen=True)
class Sigmoid:
    """One of the two functions, with what differs between them.

    `plain_shifts`: left shifts of power-of-two int16 scales that the reference treats without a multiplier. `fixed`,
    `kept_bits` and `offset`: the int8 form (see fixed_point_bytes). `scales` are those of outputs of
    the whole range; `real` and `float_values` compute the uint8 and the float form.
    """

    name: str
    is_tanh: bool
    plain_shifts: tuple[int, ...]
    fixed: Callable[[Array, int], Array]
    kept_bits: int
    offset: int
    scales: Mapping[DType, float]
    real: Callable[[np.float32], np.float32]
    float_values: Callable[[Array], Array]
    float_function: FloatFunction

    def byte_table(self, view: OperatorView) -> Array:
        """The outputs for all 256 inputs, in ascending order of the input."""
        source = view.input()
        if source.dtype is Q8:
            return fixed_point_bytes(source, self.fixed, self.kept_bits, self.offset)
        return byte_tables.through_floats(source, view.output(), self.real)

    def reference(self, view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
        (x,) = inputs
        assert x is not None
        source = view.input()
        if source.dtype is FLOAT:
            return [self.float_values(x)]
        if source.dtype is Q16:
            scaling = int16_scaling(source, self.plain_shifts)
            return [int16_values(x, *scaling, is_tanh=self.is_tanh).astype(np.int16)]
        return [byte_tables.apply(self.byte_table(view), x)]

    def lower(self, view: OperatorView, isa: Isa) -> Lowered:
        source = view.input()
        if source.dtype is FLOAT:
            return maps.float_map(isa, source.elements, self.float_function)
        if source.dtype is Q16:
            scaling = int16_scaling(source, self.plain_shifts)
            return maps.sigmoid_map(isa, source.elements, *scaling, is_tanh=self.is_tanh)
        return byte_tables.lower(isa, source, self.byte_table(view))

    def wrong_range(self, view: OperatorView) -> str | None:
        """What was got where a quantised output has not the function's whole range; uint8 outputs are free."""
        output = view.output()
        scale = self.scales.get(output.dtype)
        if scale is None:
            return None
        zero_point = self.offset if output.dtype is DType.INT8 else 0
        if output.zero_point == zero_point and abs(output.scale - scale) <= 0.001 * scale:
            return None
        return f"scale {output.scale:.6g} zero point {output.zero_point}"

    def definition(self, output_range: Constraint) -> OperatorDefinition:
        """The operator; `output_range` states the rule that `wrong_range` checks."""
        constraints = (
            inputs_between(1, 1),
            dtypes(0, Q8, DType.UINT8, Q16, FLOAT),
            output_dtype_as_input(),
            same_shape,
            quantized_per_tensor(0),
            int16_zero_points_are_zero,
            output_range,
        )
        return OperatorDefinition(self.name, no_options, constraints, self.reference, self.lower, bands.elementwise)
