# SPDX-License-Identifier: Apache-2.0
"""Exact requantisation in IR for any core, without data-dependent branches.

Source: gemmlowp fixedpoint.h (SaturatingRoundingDoublingHighMul, RoundingDivideByPOT) and TensorFlow Lite,
kernels/internal/common.cc (MultiplyByQuantizedMultiplier, both forms). Multipliers are not negative, so the first never
saturates; for them it is floor((x * m + 2**30) / 2**31) for both signs of x.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from compiler.codegen.builder import I32, I64, Function, Operand, Value


class Arithmetic(Protocol):
    """What requantisation needs of an instruction set."""

    def multiply_high(self, f: Function, a: Value, b: Value) -> Value:
        """(a * b) >> 32 of signed i32 values."""
        ...

    def saturate_int8(self, f: Function, value: Value) -> Value:
        """An i32 clamped to -128..127."""
        ...


@dataclass(frozen=True)
class Multiplier:
    """A quantised multiplier as i32 values or constants: shift left, multiply, shift right."""

    multiplier: Operand
    left: Operand
    right: Operand


def split_shift(shift: int) -> tuple[int, int]:
    """A TFLite shift (left if positive) as (left, right)."""
    return max(shift, 0), max(-shift, 0)


def doubling_high_multiply(f: Function, isa: Arithmetic, x: Value, multiplier: Operand, small: bool = False) -> Value:
    """SaturatingRoundingDoublingHighMul of i32 values; `small` states that |x| < 2**29, which is cheaper."""
    factor = f.value(multiplier)
    if small:
        high = isa.multiply_high(f, f.shl(x, 2), factor)
        return f.ashr(f.add(high, 1), 1)
    high, low = isa.multiply_high(f, x, factor), f.mul(x, factor)
    carry = f.lshr(f.add(f.lshr(low, 30), 1), 1)
    return f.add(f.shl(high, 1), carry)


def rounding_divide(f: Function, x: Value, exponent: Operand) -> Value:
    """RoundingDivideByPOT: x / 2**exponent, ties away from zero; exponent 0..31 known here or an i32."""
    if isinstance(exponent, int):
        if exponent == 0:
            return x
        mask: Operand = (1 << exponent) - 1
    else:
        mask = f.sub(f.shl(f.const(1), exponent), 1)
    threshold = f.add(f.lshr(mask, 1) if not isinstance(mask, int) else f.const(mask >> 1), f.lshr(x, 31))
    # 1 where remainder > threshold: both are at most 2**31 - 1, so their difference does not overflow.
    beyond = f.lshr(f.sub(threshold, f.and_(x, mask)), 31)
    return f.add(f.ashr(x, exponent), beyond)


def multiply_by_quantized_multiplier(
    f: Function, isa: Arithmetic, x: Value, by: Multiplier, small: bool = False
) -> Value:
    """MultiplyByQuantizedMultiplier (double rounding) of an i32; `small` states |x << left| < 2**29."""
    shifted = x if by.left == 0 and isinstance(by.left, int) else f.shl(x, by.left)
    return rounding_divide(f, doubling_high_multiply(f, isa, shifted, by.multiplier, small), by.right)


@dataclass(frozen=True)
class Multiplier64:
    """The 64-bit form's multiplier, reduced to 15 bits, and its right shift."""

    multiplier: Value
    shift: Value


def reduce_multiplier(multiplier: int, shift: int) -> tuple[int, int]:
    """A Q31 multiplier and its shift as the 64-bit form takes them: (multiplier of 15 bits, right shift)."""
    return (multiplier + (1 << 15)) >> 16 if multiplier < 0x7FFF0000 else 0x7FFF, 15 - shift


def multiply_by_quantized_multiplier_64(f: Function, x: Value, by: Multiplier64) -> Value:
    """MultiplyByQuantizedMultiplier of an i64 (one rounding), saturated to 31 bits: a zero point can be added."""
    shift = f.zext(by.shift, I64)
    product = f.mul(x, f.sext(by.multiplier, I64))
    rounded = f.ashr(f.add(product, f.shl(f.const(1, I64), f.sub(shift, 1))), shift)
    limit = f.const((1 << 30) - 1, I64)
    # max(value, -2**30), then min(value, 2**30 - 1), without branches.
    above = f.add(rounded, f.const(1 << 30, I64))
    above = f.and_(above, f.xor(f.ashr(above, 63), -1))
    below = f.sub(f.add(limit, f.const(1 << 30, I64)), above)
    below = f.and_(below, f.xor(f.ashr(below, 63), -1))
    return f.sub(f.trunc(limit, I32), f.trunc(below, I32))


def narrow_shifts(multiplier: int, shift: int) -> tuple[int, int, int]:
    """The 64-bit form on i32 accumulators by one high multiplication: (multiplier, left, right) such that the result
    is (mulhi(x << left, multiplier) + (1 << right >> 1)) >> right, with right >= 1."""
    reduced, total = reduce_multiplier(multiplier, shift)
    left = max(0, 17 - total)
    return reduced << 16, left, total + left - 16


def clamp(f: Function, isa: Arithmetic, value: Value, minimum: Operand, maximum: Operand) -> Value:
    """An i32 clamped without branches; |value| < 2**30 and the bounds lie within int16."""
    if (minimum, maximum) == (-128, 127) and isinstance(minimum, int) and isinstance(maximum, int):
        return isa.saturate_int8(f, value)
    span = maximum - minimum if isinstance(maximum, int) and isinstance(minimum, int) else f.sub(maximum, minimum)
    above = f.sub(value, minimum)
    above = f.and_(above, f.xor(f.ashr(above, 31), -1))
    below = f.sub(span, above)
    below = f.and_(below, f.xor(f.ashr(below, 31), -1))
    return f.sub(maximum, below)
