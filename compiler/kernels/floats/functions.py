# SPDX-License-Identifier: Apache-2.0
"""Float functions as IR, without libm: exponential, logarithm, logistic, hyperbolic tangent and others; rounding.

The exponential works on integers alone, so it costs the same on cores with and without a float unit and gives the same
bits. The polynomials are minimax fits by Remez's algorithm: 2**(t + 1/2) on [-1/2, 1/2] (relative error 2**-34.5),
tanh(x)/x in x**2 on [0, 0.625] (2**-27.9), (2 atanh(s)/s - 2)/s**2 in s**2 on [0, 0.0295] (2**-29.1).
`compiler.float_numerics` has the same arithmetic in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import numpy as np

from compiler.codegen.builder import I32, I64, Function, Value
from compiler.isa import Isa

LOG2_E_HIGH = 1549082005
"""log2(e) * 2**30, rounded."""
LOG2_E_LOW = -1374947234
"""What that rounding left, * 2**62."""
EXP_POLYNOMIAL = (1518500250, 1052544167, 364784018, 84282995, 14604977, 2024756, 234901, 23084)
"""2**(t + 1/2) as Q30 coefficients of t, lowest first."""
TANH_POLYNOMIAL = (1.0, -0.3333326, 0.13331127, -0.053721067, 0.020590989, -0.005659989)
"""tanh(x) / x as float32 coefficients of x**2, lowest first."""
TANH_SMALL = 0.625
LOG_POLYNOMIAL = (0.6666666865348816, 0.4000012278556824, 0.2855079770088196, 0.23330993950366974)
"""(2 atanh(s) / s - 2) / s**2 as float32 coefficients of s**2, lowest first."""
LN_2_HIGH, LN_2_LOW = 0.693145751953125, 1.4286068202862268e-06
"""ln 2 as a sum whose first part has 15 bits: its product with an exponent is exact."""
SQRT_HALF_BITS = 0x3F3504F3
LOGISTIC_HIGH, LOGISTIC_LOW = 16.619047164916992188, -9.0
"""Beyond these the reference's logistic is 1, and exp(x)."""
LARGEST = float(np.finfo(np.float32).max)
INFINITY_BITS, NAN_BITS, SIGN = 0x7F800000, 0x7FC00000, 1 << 31


class FloatFunction(Enum):
    """A float function of one value."""

    EXP = "exp"
    LOGISTIC = "logistic"
    TANH = "tanh"
    ELU = "elu"
    HARD_SWISH = "hard_swish"

    def emit(self, f: Function, isa: Isa, x: Value) -> Value:
        emitters: dict[FloatFunction, Callable[[Function, Isa, Value], Value]] = {
            FloatFunction.EXP: exp, FloatFunction.LOGISTIC: logistic, FloatFunction.TANH: tanh,
            FloatFunction.ELU: elu, FloatFunction.HARD_SWISH: hard_swish,
        }  # fmt: skip
        return emitters[self](f, isa, x)


def exp(f: Function, isa: Isa, x: Value) -> Value:
    """exp(x) within 0.52 units in the last place, denormal results included; NaN stays NaN."""
    bits = f.bits(x)
    magnitude = f.and_(bits, SIGN - 1)
    exponent = f.lshr(magnitude, 23)
    mantissa = f.or_(f.and_(bits, (1 << 23) - 1), 1 << 23)
    # |x| below 128 as Q24, below 2 as Q30: both keep 30 bits behind the point of x * log2(e).
    integer_bits = f.select(f.compare(">=", exponent, 128), 9, 3)
    shift = f.sub(f.sub(exponent, 117), integer_bits)
    fixed = f.shl(mantissa, f.minimum(f.maximum(shift, 0), 7))
    fixed = f.lshr(fixed, f.minimum(f.maximum(f.sub(0, shift), 0), 31))
    low = f.mul(fixed, LOG2_E_HIGH)
    high = isa.multiply_high(f, fixed, f.const(LOG2_E_HIGH))
    wide = f.or_(f.shl(f.zext(high, I64), 32), f.zext(low, I64))
    rest = isa.multiply_high(f, fixed, f.const(LOG2_E_LOW))
    wide = f.add(wide, f.sext(rest, I64))
    # The product has 54 or 60 bits behind the point; twice of it puts the point 32 - `integer_bits` below the top word.
    wide = f.add(wide, wide)
    sign = f.sext(f.ashr(bits, 31), I64)
    wide = f.sub(f.xor(wide, sign), sign)
    high, low = f.trunc(f.lshr(wide, 32), I32), f.trunc(wide, I32)
    power = f.ashr(high, f.sub(32, integer_bits))
    fraction = f.or_(f.shl(high, integer_bits), f.lshr(low, f.sub(32, integer_bits)))
    centred = f.xor(fraction, SIGN)  # minus 1/2, as a signed Q32
    total: Value = f.const(EXP_POLYNOMIAL[-1])
    for coefficient in reversed(EXP_POLYNOMIAL[:-1]):
        total = f.add(isa.multiply_high(f, total, centred), coefficient)
    denormal = f.minimum(f.maximum(f.sub(-126, power), 0), 24)
    rounded = f.lshr(f.add(total, f.shl(f.const(64), denormal)), f.add(denormal, 7))
    result = f.add(f.shl(f.add(f.add(power, denormal), 126), 23), rounded)
    result = f.select(f.compare("<", power, -150), 0, result)
    result = f.select(f.compare(">", power, 127), INFINITY_BITS, result)
    # |x| >= 128 did not fit the fixed-point form.
    extreme = f.and_(f.xor(f.ashr(bits, 31), -1), INFINITY_BITS)
    result = f.select(f.compare(">=", exponent, 134), extreme, result)
    return f.from_bits(f.select(f.compare(">", magnitude, INFINITY_BITS), NAN_BITS, result))


def logistic(f: Function, isa: Isa, x: Value) -> Value:
    """1 / (1 + exp(-x)); exp(x) below -9 and 1 above 16.6, as the reference."""
    bits = f.bits(x)
    low = f.compare_unsigned("<", f.sub(bits, float_bits(LOGISTIC_LOW) + 1), 0xFF800000 - float_bits(LOGISTIC_LOW))
    high = f.compare_unsigned(
        "<", f.sub(bits, float_bits(LOGISTIC_HIGH) + 1), INFINITY_BITS - float_bits(LOGISTIC_HIGH)
    )
    power = exp(f, isa, f.from_bits(f.select(low, bits, f.xor(bits, SIGN))))
    one = f.float(1.0)
    middle = f.fdiv(one, f.fadd(one, power))
    return f.select(low, power, f.select(high, one, middle))


def tanh(f: Function, isa: Isa, x: Value) -> Value:
    """tanh(x) within 2 units in the last place: a polynomial up to 0.625, else 1 - 2 / (exp(2x) + 1)."""
    bits = f.bits(x)
    magnitude = f.from_bits(f.and_(bits, SIGN - 1))
    square = f.fmul(x, x)
    total: Value = f.float(float(np.float32(TANH_POLYNOMIAL[-1])))
    for coefficient in reversed(TANH_POLYNOMIAL[1:-1]):
        total = f.fadd(f.fmul(total, square), f.float(float(np.float32(coefficient))))
    small = f.fadd(magnitude, f.fmul(magnitude, f.fmul(total, square)))
    one, two = f.float(1.0), f.float(2.0)
    large = f.fsub(one, f.fdiv(two, f.fadd(exp(f, isa, f.fadd(magnitude, magnitude)), one)))
    is_small = f.compare("<", f.bits(magnitude), float_bits(TANH_SMALL))
    result = f.bits(f.select(is_small, small, large))
    return f.from_bits(f.or_(result, f.and_(bits, SIGN)))


def elu(f: Function, isa: Isa, x: Value) -> Value:
    """x, or exp(x) - 1 below 0."""
    below = f.fsub(exp(f, isa, x), f.float(1.0))
    return f.builder.select(f.compare("<", f.bits(x), 0), below, x)


def hard_swish(f: Function, isa: Isa, x: Value) -> Value:
    """x * min(max(x + 3, 0), 6) / 6, as the reference rounds it."""
    gate = clamp(f, f.fadd(x, f.float(3.0)), 0.0, 6.0)
    return f.fdiv(f.fmul(x, gate), f.float(6.0))


def log(f: Function, isa: Isa, x: Value) -> Value:
    """ln(x) within 2 units in the last place for normal x > 0; -infinity below the least normal float, NaN below 0."""
    bits = f.bits(x)
    # x = mantissa * 2**exponent with the mantissa from sqrt(1/2) to sqrt(2).
    above = f.sub(bits, SQRT_HALF_BITS)
    exponent = f.ashr(above, 23)
    mantissa = f.from_bits(f.add(f.and_(above, (1 << 23) - 1), SQRT_HALF_BITS))
    one = f.float(1.0)
    s = f.fdiv(f.fsub(mantissa, one), f.fadd(mantissa, one))
    square = f.fmul(s, s)
    total: Value = f.float(LOG_POLYNOMIAL[-1])
    for coefficient in reversed(LOG_POLYNOMIAL[:-1]):
        total = f.fadd(f.fmul(total, square), f.float(coefficient))
    scale = f.to_float(exponent)
    small = f.fadd(f.fmul(f.fmul(s, square), total), f.fmul(scale, f.float(_single(LN_2_LOW))))
    result = f.bits(f.fadd(f.fmul(scale, f.float(LN_2_HIGH)), f.fadd(f.fadd(s, s), small)))
    result = f.select(f.compare("<", bits, 1 << 23), 0xFF800000, result)
    result = f.select(f.compare(">=", bits, INFINITY_BITS), bits, result)
    negative = f.compare_unsigned(">", bits, SIGN)
    return f.from_bits(f.select(negative, NAN_BITS, result))


def _single(value: float) -> float:
    return float(np.float32(value))


def round_half_away(f: Function, x: Value, signed: Value | None = None) -> Value:
    """x rounded to the nearest i32, ties away from zero. Beyond 2**23 the magnitude is not exact, but at least 2**22:
    for results that are clamped to fewer bits. The sign is that of the float `signed`, where it is given: a NaN that
    was computed has not always the sign of its operand."""
    bits = f.bits(x)
    exponent = f.and_(f.lshr(bits, 23), 0xFF)
    mantissa = f.or_(f.and_(bits, (1 << 23) - 1), 1 << 23)
    shift = f.minimum(f.maximum(f.sub(150, exponent), 1), 31)
    half = f.shl(f.const(1), f.sub(shift, 1))
    magnitude = f.lshr(f.add(mantissa, half), shift)
    sign = f.ashr(bits if signed is None else f.bits(signed), 31)
    return f.sub(f.xor(magnitude, sign), sign)


def float_bits(value: float) -> int:
    """The bits of a value's float32 form, as an unsigned integer."""
    return int(np.float32(value).view(np.uint32))


def clamp(f: Function, value: Value, minimum: float, maximum: float) -> Value:
    """min(max(value, minimum), maximum) with the reference's NaN and signed-zero results.

    It works on the bits: floats of one sign are ordered as integers, which spares soft-float cores the comparison
    calls. Needs minimum <= 0 < maximum; infinite bounds stand for the largest finite value, as in the reference.
    """
    minimum, maximum = max(minimum, -LARGEST), min(maximum, LARGEST)
    if not minimum <= 0 < maximum:
        raise ValueError(f"a clamp to {minimum}..{maximum} does not hold zero")
    bits = f.bits(value)
    if minimum == -LARGEST and maximum == LARGEST:
        # An infinity less one unit is the largest finite value of its sign.
        infinite = f.compare("==", f.shl(bits, 1), INFINITY_BITS << 1)
        return f.from_bits(f.sub(bits, f.zext(infinite)))
    for bound, infinity, result in (
        (SIGN | float_bits(-minimum), SIGN | INFINITY_BITS, float_bits(minimum + 0.0)),
        (float_bits(maximum), INFINITY_BITS, float_bits(maximum)),
    ):
        beyond = f.compare_unsigned("<", f.sub(bits, bound + 1), infinity - bound)
        bits = f.select(beyond, f.const(result), bits)
    return f.from_bits(bits)
