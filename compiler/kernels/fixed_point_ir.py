# SPDX-License-Identifier: Apache-2.0
"""The reference's fixed-point arithmetic as IR; `compiler.fixed_point` is the same in NumPy."""

from __future__ import annotations

from compiler.codegen.builder import I1, I32, Function, Value
from compiler.codegen.requantize import doubling_high_multiply
from compiler.fixed_point import INT32_MAX, Q2_ONE, RECIPROCAL_SLOPE, RECIPROCAL_START
from compiler.isa import Isa


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
