# SPDX-License-Identifier: Apache-2.0
"""QUANTIZE and DEQUANTIZE in integers alone, for cores without float unit: the bits that single precision would give,
for every input, without branches.

Quantising, x = m * 2^a and scale = s * 2^b, m and s of 24 bits, m doubled where it is below s. The quotient's mantissa
is N = round(m * 2^23 / s), which is never a tie: s * (2 N + 1) = m * 2^24 would need an s of 25 bits. A candidate c is
N or N - 1: taken from a product with s's inverse, which is below the quotient by less than 1.51 / 32. It is N - 1
exactly where s * (2 c + 1) - m * 2^24 is negative, which 32 bits tell, since it is within 2 s. Inputs are first
clamped to the floats that give the type's bounds, so that infinity, NaN and overflows need nothing else, and no output
is clamped. Denormal inputs count as twice as much at most, and are far below a half of the scale.

Dequantising, the integer of 8 or 16 bits is shifted up to its type's highest bit; its product with s is rounded to 24
bits, ties to even.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.codegen.builder import Function, Value
from compiler.isa import Isa
from compiler.kernels.floats.functions import SIGN, float_bits
from compiler.kernels.kernel import INPUT, Lowered
from compiler.kernels.portable.formula import Emit, Formula, Operand, elementwise
from compiler.kernels.portable.loops import Element

QUANTIZE = ("limit", "limit_change", "scale_mantissa", "scale_inverse", "exponent", "zero_point")
_SMALLEST, _LARGEST = 2.0**-125, 2.0**100
_STEPS = 23
DEQUANTIZE = ("zero_point", "scale_mantissa", "exponent")
_LARGEST_SCALE, _SMALLEST_SCALE = 2.0**110, 2.0**-126


def quantize_numbers(scale: float, zero_point: int, low: int, high: int) -> tuple[int, ...] | None:
    """The values of `QUANTIZE` for outputs `low`..`high`; None where the scale is too near to a float's limits."""
    scale = float(np.float32(scale))
    if not (_SMALLEST <= scale <= _LARGEST and low <= zero_point <= high):
        return None
    above, below = (float_bits(float(np.float32(n * scale))) for n in (high - zero_point, zero_point - low))
    bits = float_bits(scale)
    mantissa = bits & (1 << 23) - 1 | 1 << 23
    # Where the quotient's exponent is 0, its mantissa has 22 bits behind a half's place.
    return above, above ^ below, mantissa, ((1 << 54) - 1) // mantissa, (bits >> 23) + 22 - 31, zero_point


def quantized(f: Function, isa: Isa, operands: Sequence[Value], values: Sequence[Value]) -> Value:
    """The output of a float; `values` are those of `QUANTIZE`."""
    limit, change, mantissa, inverse, exponent, zero_point = values
    bits = f.bits(operands[0])
    sign = f.ashr(bits, 31)
    beyond = f.sub(f.and_(bits, SIGN - 1), limit := f.xor(limit, f.and_(change, sign)))
    magnitude = f.add(f.and_(beyond, f.ashr(beyond, 31)), limit)
    numerator = f.or_(f.and_(magnitude, (1 << 23) - 1), 1 << 23)
    doubled = f.lshr(f.sub(numerator, mantissa), 31)
    numerator = f.shl(numerator, doubled)
    if isa.has_multiplier:
        rounded = _by_inverse(f, isa, numerator, mantissa, inverse)
    else:
        rounded = _by_subtraction(f, numerator, mantissa)
    # The shift that leaves one bit behind the point, less 31, which it does not exceed.
    shift = f.sub(f.add(exponent, doubled), f.lshr(magnitude, 23))
    shift = f.add(f.and_(shift, f.ashr(shift, 31)), 31)
    steps = f.lshr(f.add(f.lshr(rounded, shift), 1), 1)
    return f.add(f.sub(f.xor(steps, sign), sign), zero_point)


def _by_inverse(f: Function, isa: Isa, numerator: Value, mantissa: Value, inverse: Value) -> Value:
    product = isa.multiply_high(f, f.shl(numerator, 6), inverse)
    odd = f.or_(f.lshr(f.add(product, 16), 4), 1)  # 2 c + 1
    rest = f.sub(f.mul(mantissa, odd), f.shl(numerator, 24))
    return f.add(f.lshr(odd, 1), f.lshr(rest, 31))


def _by_subtraction(f: Function, numerator: Value, mantissa: Value) -> Value:
    """Bit by bit."""

    def step(_: Value, carried: list[Value]) -> list[Value]:
        rest, quotient = carried
        rest = f.sub(f.shl(rest, 1), mantissa)
        negative = f.ashr(rest, 31)
        return [f.add(rest, f.and_(mantissa, negative)), f.add(f.add(f.shl(quotient, 1), 1), negative)]

    rest, quotient = f.loop(_STEPS, step, [f.sub(numerator, mantissa), f.const(1)])
    return f.add(quotient, f.lshr(f.sub(mantissa, f.shl(rest, 1)), 31))


def quantize(
    isa: Isa, count: int, target: Element, scale: float, zero_point: int, low: int, high: int
) -> Lowered | None:
    """`count` floats to integers; None where the scale does not allow for it."""
    numbers = quantize_numbers(scale, zero_point, low, high)
    if numbers is None:
        return None
    formula = Formula("quantize_bits", quantized, QUANTIZE, lanes=1)
    return elementwise(isa, formula, [Operand(INPUT, Element.FLOAT32, (count,))], target, (count,), numbers)


def dequantize_numbers(scale: float, zero_point: int, low: int, high: int) -> tuple[int, ...] | None:
    """The values of `DEQUANTIZE` for inputs `low`..`high`; None where products with the scale may not be normal."""
    scale = float(np.float32(scale))
    if not (_SMALLEST_SCALE <= scale <= _LARGEST_SCALE and low <= zero_point <= high):
        return None
    bits, exponents = float_bits(scale), {255: 7, 65535: 15}
    # Less 1: the mantissa's highest bit adds it. A product of mantissas below 2 has its highest bit one lower.
    return zero_point, bits & (1 << 23) - 1 | 1 << 23, (bits >> 23) + exponents[high - low] - 1


def dequantized(wide: bool) -> Emit:
    """The float of an integer of 16 bits, if `wide`, or 8."""
    width = 16 if wide else 8

    def emit(f: Function, isa: Isa, operands: Sequence[Value], values: Sequence[Value]) -> Value:
        zero_point, mantissa, exponent = values
        steps = f.sub(operands[0], zero_point)
        sign = f.ashr(steps, 31)
        integer = f.sub(f.xor(steps, sign), sign)
        nonzero = f.ashr(f.sub(0, integer), 31)
        for shift in (8, 4, 2, 1)[0 if wide else 1 :]:
            # 1 where the highest bits are all 0.
            up = f.shl(f.lshr(f.sub(f.lshr(integer, width - shift), 1), 31), shift.bit_length() - 1)
            integer, exponent = f.shl(integer, up), f.sub(exponent, up)
        product = f.mul(mantissa, integer)
        if wide:
            rest = f.lshr(f.add(f.and_(product, 1023), 1023), 10)
            product = isa.multiply_high(f, f.shl(integer, 15), f.shl(mantissa, 7))
            product = f.or_(f.shl(product, 2), rest)
        high = f.lshr(product, 31)
        product = f.shl(product, f.sub(1, high))
        number = f.lshr(product, 8)
        rest = f.add(f.add(f.and_(product, 255), 127), f.and_(number, 1))
        number = f.add(f.add(number, f.lshr(rest, 8)), f.shl(f.add(exponent, high), 23))
        return f.from_bits(f.or_(f.and_(number, nonzero), f.shl(sign, 31)))

    return emit


def dequantize(isa: Isa, count: int, source: Element, scale: float, zero_point: int) -> Lowered | None:
    """`count` integers of one or two bytes to floats; None where the scale does not allow for it, or where floats are
    cheaper."""
    low, high = {Element.INT8: (-128, 127), Element.UINT8: (0, 255), Element.INT16: (-32768, 32767)}[source]
    numbers = dequantize_numbers(scale, zero_point, low, high)
    wide = source is Element.INT16
    if numbers is None or (wide and not isa.has_multiplier):
        return None
    formula = Formula(f"dequantize_bits_{'16' if wide else '8'}", dequantized(wide), DEQUANTIZE, lanes=1)
    return elementwise(isa, formula, [Operand(INPUT, source, (count,))], Element.FLOAT32, (count,), numbers)
