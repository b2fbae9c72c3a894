# SPDX-License-Identifier: Apache-2.0
"""The reference's fixed-point functions in NumPy, on raw int32 values held as int64 arrays.

"Qn" is a value with n integer bits: raw = real * 2**(31 - n). Constants are the exact values rounded to their format.
Source: gemmlowp, fixedpoint/fixedpoint.h; TensorFlow Lite, kernels/internal/common.h (GetReciprocal, LUTLookup,
gen_lut), quantization_util.cc (CalculateInputRadius, PreprocessSoftmaxScaling).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.numerics import quantize_multiplier

Raw = NDArray[np.int64]

INT32_MAX = (1 << 31) - 1
RECIPROCAL_START = round(48 / 17 * (1 << 29))
RECIPROCAL_SLOPE = -round(32 / 17 * (1 << 29))
Q2_ONE = 1 << 29
LUT_STEPS = 512


def doubling_high_mul(a: NDArray[Any] | int, b: NDArray[Any] | int) -> Raw:
    """SaturatingRoundingDoublingHighMul: (a * b + 2**30) >> 31. The operands are never both INT32_MIN here."""
    return np.asarray((np.asarray(a, np.int64) * b + (1 << 30)) >> 31, np.int64)


def rounding_shift(x: NDArray[Any], bits: int | NDArray[Any]) -> Raw:
    """RoundingDivideByPOT: x / 2**bits, ties away from zero."""
    bits = np.asarray(bits, np.int64)
    half = (np.int64(1) << bits) >> 1
    return np.asarray(np.where(x >= 0, (x + half) >> bits, -((-x + half) >> bits)), np.int64)


def saturating_left(x: NDArray[Any], bits: int) -> Raw:
    """SaturatingRoundingMultiplyByPOT for a left shift."""
    return np.asarray(np.clip(np.asarray(x, np.int64) << bits, -INT32_MAX - 1, INT32_MAX), np.int64)


def exp_on_negative_values(a: NDArray[Any], integer_bits: int) -> Raw:
    """exp(a) in Q0 for a <= 0 in Q`integer_bits` (4 or 5)."""
    fraction_bits = 31 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    a = np.asarray(a, np.int64)
    below = (a & (quarter - 1)) - quarter
    result = _exp_between_minus_quarter_and_zero(saturating_left(below, integer_bits))
    remainder = below - a
    for exponent in range(-2, integer_bits):
        factor = round(math.exp(-(2.0**exponent)) * (1 << 31))
        result = np.where(remainder & (1 << (fraction_bits + exponent)), doubling_high_mul(result, factor), result)
    return np.where(a == 0, INT32_MAX, result)


def _exp_between_minus_quarter_and_zero(a: Raw) -> Raw:
    """exp(a) in Q0 for a in [-1/4, 0) in Q0: a series around -1/8."""
    term = round(math.exp(-1 / 8) * (1 << 31))
    third = round((1 << 31) / 3)
    x = a + (1 << 28)
    x2 = doubling_high_mul(x, x)
    x3 = doubling_high_mul(x2, x)
    x4_over_4 = rounding_shift(doubling_high_mul(x2, x2), 2)
    tail = rounding_shift(doubling_high_mul(x4_over_4 + x3, third) + x2, 1)
    return term + doubling_high_mul(term, x + tail)


def _half_reciprocal(a: NDArray[Any]) -> Raw:
    """1 / ((1 + a) / 2) in Q2 for a in [0, 1] in Q0: three Newton steps."""
    half_denominator = (np.asarray(a, np.int64) + INT32_MAX + 1) >> 1
    x = RECIPROCAL_START + doubling_high_mul(half_denominator, RECIPROCAL_SLOPE)
    for _ in range(3):
        missing = Q2_ONE - doubling_high_mul(half_denominator, x)
        x = x + saturating_left(doubling_high_mul(x, missing), 2)
    return x


def one_over_one_plus(a: NDArray[Any]) -> Raw:
    """1 / (1 + a) in Q0 for a in [0, 1] in Q0."""
    return saturating_left(_half_reciprocal(a), 1)


def one_minus_over_one_plus(a: NDArray[Any]) -> Raw:
    """(1 - a) / (1 + a) in Q0 for a in [0, 1] in Q0."""
    return saturating_left(_half_reciprocal(a) - Q2_ONE, 2)


def logistic(a: NDArray[Any], integer_bits: int) -> Raw:
    """1 / (1 + exp(-a)) in Q0."""
    positive = one_over_one_plus(exp_on_negative_values(-np.abs(a), integer_bits))
    return np.where(a == 0, 1 << 30, np.where(a > 0, positive, INT32_MAX - positive))


def tanh(a: NDArray[Any], integer_bits: int) -> Raw:
    """tanh(a) in Q0."""
    # Twice the value is the same raw number with one more integer bit.
    positive = one_minus_over_one_plus(exp_on_negative_values(-np.abs(a), integer_bits + 1))
    return np.where(a == 0, 0, np.where(a < 0, -positive, positive))


def input_radius(integer_bits: int, left_shift: int) -> int:
    """CalculateInputRadius: the largest input difference that still fits the fixed-point format."""
    return math.floor(((1 << integer_bits) - 1) * (1 << (31 - integer_bits)) / (1 << left_shift))


def softmax_scaling(beta: float, scale: float, integer_bits: int = 5) -> tuple[int, int]:
    """PreprocessSoftmaxScaling: (multiplier, left shift) of an input difference to Q5."""
    real = min(float(np.float32(beta)) * scale * (1 << (31 - integer_bits)), (1 << 31) - 1.0)
    return quantize_multiplier(real)


def inverse_square_root(values: NDArray[Any]) -> tuple[Raw, Raw]:
    """GetInvSqrtQuantizedMultiplierExp of values from 1 to 2**31 - 1: (Q0 multipliers, left shifts), by five Newton
    steps."""
    values = np.asarray(values, np.int64)
    x, shifts = np.maximum(values, 2), np.full(values.shape, 11, np.int64)
    for _ in range(2):
        large = x >= 1 << 29
        x, shifts = np.where(large, x // 4, x), shifts + large
    pairs = (31 - np.floor(np.log2(x)).astype(np.int64) - 1) // 2 - 1
    x, shifts = x << 2 * pairs, shifts - pairs
    half = rounding_shift(x >> 1, 1)
    root = np.full(values.shape, 1 << 28, np.int64)
    for _ in range(5):
        cube = saturating_left(doubling_high_mul(doubling_high_mul(root, root), root), 6)
        difference = doubling_high_mul((1 << 28) + (1 << 27), root) - doubling_high_mul(half, cube)
        root = saturating_left(difference, 3)
    root = doubling_high_mul(root, round(math.sqrt(0.5) * (1 << 31)))
    root, shifts = np.where(shifts < 0, root << np.maximum(-shifts, 0), root), np.maximum(shifts, 0)
    return np.where(values <= 1, INT32_MAX, root), np.where(values <= 1, 0, -shifts)


def table_of(function: Callable[[float], float], low: float, high: float) -> NDArray[np.int16]:
    """gen_lut for int16: 513 samples of `function` between `low` and `high` as Q0.15, each moved by half of the
    interpolation's error in the middle of its step. Float32 throughout."""
    f32 = np.float32
    step = (f32(high) - f32(low)) / f32(LUT_STEPS)

    def at(x: np.float32) -> np.float32:
        return f32(f32(function(float(x))) * f32(32768))

    entries = []
    for i in range(LUT_STEPS):
        value, following = at(f32(low) + f32(i) * step), at(f32(low) + f32(i + 1) * step)
        middle = _round(at(f32(low) + f32(i) * step + step / f32(2)))
        error = _round(f32((following + _round(value)) / f32(2))) - middle
        entries.append(_round(value) - _round(error / f32(2)))
    entries.append(_round(at(f32(high))))
    return np.clip(entries, -32768, 32767).astype(np.int16)


def look_up(values: NDArray[Any], table: NDArray[np.int16]) -> Raw:
    """LUTLookup for int16: linear interpolation in a table of 513."""
    values, table = np.asarray(values, np.int64), table.astype(np.int64)
    index = 256 + (values >> 7)
    base = table[index]
    return np.asarray(base + (((table[index + 1] - base) * (values & 127) + 64) >> 7), np.int64)


def _round(x: np.float32) -> np.float32:
    return np.float32(math.copysign(math.floor(abs(float(x)) + 0.5), float(x)))
