# SPDX-License-Identifier: Apache-2.0
"""The reference's fixed-point arithmetic as IR; `compiler.fixed_point` is the same in NumPy."""

from __future__ import annotations

import math

from compiler.codegen.builder import I1, I32, Function, Operand, Value
from compiler.codegen.requantize import doubling_high_multiply, rounding_divide
from compiler.fixed_point import INT32_MAX, Q2_ONE, RECIPROCAL_SLOPE, RECIPROCAL_START
from compiler.isa import Isa

SQRT_HALF = round(math.sqrt(0.5) * (1 << 31))
FOURTH_ROOT_HALF = round(0.5**0.25 * (1 << 31))
LOG_2 = round(math.log(2) * (1 << 31))
LOG_ALPHA_N = round(11 / 240 * 2**0.25 * (1 << 31))
LOG_ALPHA_D = round(1 / 20 * 2**0.25 * (1 << 31))
LOG_ALPHA_I = round((2 / 2**0.25 - 2**0.25) * (1 << 31))
LOG_ALPHA_F = round(1 / 4 * 2**0.25 * (1 << 31))


def saturating_left(f: Function, x: Value, bits: int) -> Value:
    """x << bits, saturated."""
    limit = INT32_MAX >> bits
    shifted = f.shl(x, bits)
    shifted = f.select(f.compare(">", x, limit), INT32_MAX, shifted)
    return f.select(f.compare("<", x, -limit - 1), -INT32_MAX - 1, shifted)


def rounding_shift(f: Function, x: Value, bits: Value) -> Value:
    """RoundingDivideByPOT of a value that is not negative, by 1..31 bits."""
    return f.lshr(f.add(x, f.shl(f.const(1), f.sub(bits, 1))), bits)


def one_over_one_plus(f: Function, isa: Isa, a: Value) -> Value:
    """1 / (1 + a) in Q0 for a in [0, 1) in Q0: three Newton steps."""
    half_denominator = f.add(f.lshr(a, 1), 1 << 30)
    x = f.add(doubling_high_multiply(f, isa, half_denominator, RECIPROCAL_SLOPE), RECIPROCAL_START)
    for _ in range(3):
        missing = f.sub(Q2_ONE, doubling_high_multiply(f, isa, half_denominator, x))
        x = f.add(x, saturating_left(f, doubling_high_multiply(f, isa, x, missing), 2))
    return saturating_left(f, x, 1)


def leading_zeros(f: Function, x: Value) -> Value:
    """Leading zero bits of an i32 that is not 0."""
    return f.intrinsic("llvm.ctlz.i32", I32, [x, f.const(1, I1)])


def inverse_square_root(f: Function, isa: Isa, x: Value) -> tuple[Value, Value]:
    """(Q0 multiplier, left shift) of 1 / sqrt(x) for x >= 0, 0 as 1: five Newton steps."""
    large = f.compare(">=", x, 1 << 29)
    value = f.maximum(f.select(large, f.ashr(x, 2), x), 2)
    pairs = f.sub(f.lshr(f.sub(leading_zeros(f, value), 1), 1), 1)
    value = f.shl(value, f.shl(pairs, 1))
    half = rounding_shift(f, f.ashr(value, 1), f.const(1))

    def step(_: Value, carried: list[Value]) -> list[Value]:
        (root,) = carried
        square = doubling_high_multiply(f, isa, root, root)
        cube = saturating_left(f, doubling_high_multiply(f, isa, square, root), 6)
        rise = doubling_high_multiply(f, isa, root, (1 << 28) + (1 << 27))
        return [saturating_left(f, f.sub(rise, doubling_high_multiply(f, isa, half, cube)), 3)]

    (root,) = f.loop(5, step, [f.const(1 << 28)])
    root = doubling_high_multiply(f, isa, root, SQRT_HALF)
    right = f.sub(f.select(large, 12, 11), pairs)
    root = f.shl(root, f.maximum(f.sub(0, right), 0))
    is_one = f.compare("<=", x, 1)
    return f.select(is_one, INT32_MAX, root), f.select(is_one, 0, f.sub(0, f.maximum(right, 0)))


def logarithm(f: Function, isa: Isa, x: Value) -> Value:
    """log_x_for_x_greater_than_or_equal_to_1: the logarithm in Q5 of a value of at least 1 in Q12.

    Two candidates of mantissa and power of two, a quarter of a power apart, are taken together.
    """

    def product(a: Value, b: Operand) -> Value:
        return doubling_high_multiply(f, isa, a, b)

    def power(headroom: Value, adjustment: int) -> Value:
        return f.add(f.shl(f.sub(12, headroom), 31 - 6), adjustment)

    quarter = 1 << (29 - 6)
    headroom = leading_zeros(f, x)
    first = saturating_left(f, product(f.shl(x, f.sub(headroom, 1)), SQRT_HALF), 1)
    other_headroom = f.sub(leading_zeros(f, product(x, SQRT_HALF)), 1)
    fits = f.compare("<=", x, f.lshr(f.const(INT32_MAX), other_headroom))
    second = f.select(fits, f.shl(x, other_headroom), INT32_MAX)
    r = f.minimum(first, second)
    exponent = f.maximum(power(headroom, quarter), power(other_headroom, -quarter))
    p = f.lshr(f.add(f.add(r, FOURTH_ROOT_HALF), 1), 1)
    q = f.shl(f.sub(r, FOURTH_ROOT_HALF), 1)
    square = product(q, q)
    numerator = f.add(product(q, r), product(product(q, square), LOG_ALPHA_N))
    inner = f.add(f.add(q, LOG_ALPHA_I), product(square, LOG_ALPHA_D))
    denominator = f.add(product(p, inner), product(q, LOG_ALPHA_F))
    scaled = rounding_divide(f, numerator, 6)
    total = f.add(product(exponent, LOG_2), product(scaled, one_over_one_plus(f, isa, denominator)))
    return saturating_left(f, total, 1)
