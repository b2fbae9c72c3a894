# SPDX-License-Identifier: Apache-2.0
"""Sine and cosine, without libm, within 2 units in the last place for all finite floats.

An angle of at least pi/4 is multiplied by 2/pi in integers: of the 192 bits of 2/pi, those that matter for its exponent
are taken, so that no precision is lost for large angles. The polynomials are minimax fits on [0, pi/4] of
(sin(x) - x) / x**3 (relative error of the sine 2**-28) and (cos(x) - 1 + x**2 / 2) / x**4 (2**-33), in x**2.
"""

from __future__ import annotations

import math
from itertools import pairwise

from compiler.codegen.builder import I32, I64, Function, Value
from compiler.isa import Isa
from compiler.kernels.floats.functions import INFINITY_BITS, NAN_BITS, SIGN, float_bits
from compiler.kernels.portable.fixed_point_ir import leading_zeros

SIN_POLYNOMIAL = (-0.16666655242443085, 0.008332154713571072, -0.000195140833966434)
COS_POLYNOMIAL = (0.04166664555668831, -0.0013887337408959866, 2.443484299874399e-05)
TWO_OVER_PI = (0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB)
"""Bits of 2/pi behind the point, after a word of zeros."""
QUARTER_PI_BITS = float_bits(math.pi / 4)
HALF_PI = round(math.pi / 2 * (1 << 30))


def sin(f: Function, isa: Isa, x: Value) -> Value:
    bits = f.bits(x)
    return _at_quadrant(f, isa, f.and_(bits, SIGN - 1), 0, f.and_(bits, SIGN))


def cos(f: Function, isa: Isa, x: Value) -> Value:
    return _at_quadrant(f, isa, f.and_(f.bits(x), SIGN - 1), 1, f.const(0))


def _at_quadrant(f: Function, isa: Isa, magnitude: Value, ahead: int, sign: Value) -> Value:
    """The sine of an angle that is not negative plus `ahead` quadrants, its sign bit flipped by `sign`."""
    quadrant, rest = _reduced(f, isa, magnitude)
    small = f.compare("<", magnitude, QUARTER_PI_BITS)
    quadrant = f.add(f.select(small, 0, quadrant), ahead)
    rest = f.select(small, f.from_bits(magnitude), rest)
    square = f.fmul(rest, rest)
    sine = f.fadd(rest, f.fmul(f.fmul(rest, square), _polynomial(f, square, SIN_POLYNOMIAL)))
    quartic = f.fmul(f.fmul(square, square), _polynomial(f, square, COS_POLYNOMIAL))
    cosine = f.fsub(f.float(1.0), f.fsub(f.fmul(square, f.float(0.5)), quartic))
    odd = f.compare("!=", f.and_(quadrant, 1), 0)
    result = f.bits(f.select(odd, cosine, sine))
    flipped = f.xor(f.xor(result, f.shl(f.and_(quadrant, 2), 30)), sign)
    return f.from_bits(f.select(f.compare(">=", magnitude, INFINITY_BITS), NAN_BITS, flipped))


def _polynomial(f: Function, x: Value, coefficients: tuple[float, ...]) -> Value:
    total: Value = f.float(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = f.fadd(f.fmul(total, x), f.float(coefficient))
    return total


def _reduced(f: Function, isa: Isa, magnitude: Value) -> tuple[Value, Value]:
    """(nearest multiple of pi/2, modulo 4; the rest, in [-pi/4, pi/4]) of an angle of at least pi/4."""
    mantissa = f.zext(f.or_(f.and_(magnitude, (1 << 23) - 1), 1 << 23), I64)
    # The angle is mantissa * 2**(exponent - 150). Bits of 2/pi that stand for multiples of four quadrants are left out.
    first = f.maximum(f.sub(f.lshr(magnitude, 23), 120), 0)
    word, shift = f.lshr(first, 5), f.zext(f.and_(first, 31), I64)
    words = []
    for position in range(4):
        chosen: Value = f.const(TWO_OVER_PI[position])
        for index in range(1, 5):
            chosen = f.select(f.compare("==", word, index), TWO_OVER_PI[position + index], chosen)
        words.append(f.zext(chosen, I64))
    windows = [
        f.and_(f.lshr(f.shl(f.or_(f.shl(high, 32), low), shift), 32), 0xFFFFFFFF) for high, low in pairwise(words)
    ]
    turns = f.add(f.shl(f.mul(mantissa, windows[0]), 32), f.mul(mantissa, windows[1]))
    turns = f.add(turns, f.lshr(f.mul(mantissa, windows[2]), 32))
    # Two bits of quadrants, then 62 bits of the way through one.
    top = f.trunc(f.lshr(turns, 32), I32)
    quadrant = f.add(f.lshr(top, 30), f.and_(f.lshr(top, 29), 1))
    return quadrant, _angle(f, isa, f.shl(turns, 2))


def _angle(f: Function, isa: Isa, way: Value) -> Value:
    """The float way * 2**-64 * pi/2 of a signed i64, rounded once."""
    sign = f.ashr(way, 63)
    magnitude = f.sub(f.xor(way, sign), sign)
    high, low = f.trunc(f.lshr(magnitude, 32), I32), f.trunc(magnitude, I32)
    is_small = f.compare("==", high, 0)
    headroom = leading_zeros(f, f.or_(f.select(is_small, low, high), 1))
    headroom = f.add(headroom, f.select(is_small, 32, 0))
    top = f.trunc(f.lshr(f.shl(magnitude, f.zext(headroom, I64)), 33), I32)
    angle = f.to_float(isa.multiply_high(f, top, f.const(HALF_PI)))
    scale = f.from_bits(f.shl(f.sub(127 - 29, headroom), 23))
    return f.from_bits(f.xor(f.bits(f.fmul(angle, scale)), f.and_(f.trunc(sign, I32), SIGN)))
