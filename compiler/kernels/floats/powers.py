# SPDX-License-Identifier: Apache-2.0
"""Square root and power, without libm. The square root is correctly rounded; the power works in doubles and is rounded
once."""

from __future__ import annotations

import math

from compiler.codegen.builder import F32, I64, Function, Value
from compiler.isa import Isa
from compiler.kernels.floats.functions import INFINITY_BITS, NAN_BITS, SIGN, float_bits
from compiler.kernels.floats.rounding import truncate
from compiler.kernels.portable.fixed_point_ir import leading_zeros

SQRT_HALF_BITS = float_bits(math.sqrt(0.5))
ATANH_TERMS = 9
EXP_TERMS = 12
GREATEST_POWER = 200.0
"""Powers of two beyond this are infinite or 0 as floats."""


def sqrt(f: Function, isa: Isa, x: Value) -> Value:
    """The square root, correctly rounded: by an instruction, or digit by digit. NaN below 0."""
    if isa.has_float_unit:
        return f.intrinsic("llvm.sqrt.f32", F32, [x])
    bits = f.bits(x)
    magnitude = f.and_(bits, SIGN - 1)
    # A denormal is shifted up until its first bit is where a normal number has its hidden one.
    headroom = f.maximum(f.sub(leading_zeros(f, f.or_(magnitude, 1)), 8), 0)
    normal = f.compare(">=", magnitude, 1 << 23)
    mantissa = f.select(normal, f.or_(f.and_(magnitude, (1 << 23) - 1), 1 << 23), f.shl(magnitude, headroom))
    exponent = f.sub(f.select(normal, f.lshr(magnitude, 23), f.sub(1, headroom)), 127)
    remainder = f.shl(mantissa, f.add(f.and_(exponent, 1), 1))

    def digit(_: Value, carried: list[Value]) -> list[Value]:
        rest, root, twice, bit = carried
        tried = f.add(twice, bit)
        fits = f.compare_unsigned("<=", tried, rest)
        rest = f.shl(f.select(fits, f.sub(rest, tried), rest), 1)
        twice = f.select(fits, f.add(tried, bit), twice)
        return [rest, f.select(fits, f.add(root, bit), root), twice, f.lshr(bit, 1)]

    rest, root, *_ = f.loop(25, digit, [remainder, f.const(0), f.const(0), f.const(1 << 24)])
    rounded = f.add(root, f.select(f.compare("==", rest, 0), 0, f.and_(root, 1)))
    result = f.add(f.add(f.lshr(rounded, 1), 0x3F000000), f.shl(f.ashr(exponent, 1), 23))
    result = f.select(f.compare(">=", magnitude, INFINITY_BITS), bits, result)
    result = f.select(f.compare("<", bits, 0), NAN_BITS, result)
    return f.from_bits(f.select(f.compare("==", magnitude, 0), bits, result))


def power(f: Function, x: Value, y: Value) -> Value:
    """x ** y with the special values of C's pow."""
    bits, exponent_bits = f.bits(x), f.bits(y)
    magnitude = f.and_(bits, SIGN - 1)
    y_magnitude = f.and_(exponent_bits, SIGN - 1)
    result = f.bits(_positive_power(f, magnitude, y))
    infinite_or_zero = f.select(f.compare("<", exponent_bits, 0), INFINITY_BITS, 0)
    result = f.select(f.compare("==", magnitude, 0), infinite_or_zero, result)
    inverse = f.xor(infinite_or_zero, INFINITY_BITS)
    result = f.select(f.compare("==", magnitude, INFINITY_BITS), inverse, result)
    result = f.select(f.compare("==", magnitude, float_bits(1.0)), float_bits(1.0), result)
    whole = f.compare("==", f.bits(truncate(f, y)), exponent_bits)
    # From 2**24 on every float is even.
    integer = f.to_int(f.from_bits(f.select(f.compare("<", y_magnitude, float_bits(2.0**24)), exponent_bits, 0)))
    odd = f.shl(f.and_(integer, f.zext(whole)), 31)
    signed = f.or_(result, f.and_(odd, bits))
    finite = f.and_(f.compare("<", magnitude, INFINITY_BITS), f.compare("!=", magnitude, 0))
    broken = f.compare("!=", f.bits(truncate(f, y)), exponent_bits)
    undefined = f.and_(f.and_(f.compare("<", bits, 0), broken), finite)
    result = f.select(undefined, NAN_BITS, signed)
    not_numbers = f.or_(f.compare(">", magnitude, INFINITY_BITS), f.compare(">", y_magnitude, INFINITY_BITS))
    result = f.select(not_numbers, NAN_BITS, result)
    one = f.or_(f.compare("==", y_magnitude, 0), f.compare("==", bits, float_bits(1.0)))
    return f.from_bits(f.select(one, float_bits(1.0), result))


def _split(f: Function, magnitude: Value) -> tuple[Value, Value]:
    """A positive finite number as 2**i32 * a float in [sqrt(1/2), sqrt(2))."""
    normal = f.compare(">=", magnitude, 1 << 23)
    bits = f.select(normal, magnitude, f.bits(f.to_float(f.select(normal, 1, magnitude))))
    exponent = f.ashr(f.sub(bits, SQRT_HALF_BITS), 23)
    mantissa = f.from_bits(f.sub(bits, f.shl(exponent, 23)))
    return f.sub(exponent, f.select(normal, 0, 149)), mantissa


def _positive_power(f: Function, magnitude: Value, y: Value) -> Value:
    """2 ** (y * log2(x)) of a positive finite x, in doubles: log2 by the series of atanh, the power by that of exp."""
    exponent, mantissa = _split(f, magnitude)
    wide, one = f.to_double(mantissa), f.double(1.0)
    ratio = f.fdiv(f.fsub(wide, one), f.fadd(wide, one))
    square = f.fmul(ratio, ratio)
    total: Value = f.double(1 / (2 * ATANH_TERMS - 1))
    for term in range(ATANH_TERMS - 2, -1, -1):
        total = f.fadd(f.fmul(total, square), f.double(1 / (2 * term + 1)))
    logarithm = f.fmul(f.fmul(total, ratio), f.double(2 / math.log(2)))
    product = f.fmul(f.to_double(y), f.fadd(logarithm, f.to_double(f.to_float(exponent))))
    for bound, beyond in ((GREATEST_POWER, ">"), (-GREATEST_POWER, "<")):
        product = f.select(f.fcompare(beyond, product, f.double(bound)), f.double(bound), product)
    whole = f.to_int(f.fadd(product, f.select(f.fcompare("<", product, f.double(0.0)), f.double(-0.5), f.double(0.5))))
    part = f.fmul(f.fsub(product, f.to_double(f.to_float(whole))), f.double(math.log(2)))
    total = f.double(1 / math.factorial(EXP_TERMS))
    for term in range(EXP_TERMS - 1, -1, -1):
        total = f.fadd(f.fmul(total, part), f.double(1 / math.factorial(term)))
    scale = f.from_bits(f.shl(f.sext(f.add(whole, 1023), I64), 52))
    return f.to_single(f.fmul(total, scale))
