# SPDX-License-Identifier: Apache-2.0
"""Floats rounded to integral floats, on their bits alone: exact, and as cheap without a float unit."""

from __future__ import annotations

from compiler.codegen.builder import Function, Value
from compiler.kernels.floats.functions import SIGN, float_bits

ONE, HALF = float_bits(1.0), float_bits(0.5)


def truncate(f: Function, x: Value) -> Value:
    """x without its fraction, its sign kept."""
    magnitude, sign = _parts(f, x)
    return f.from_bits(f.or_(_towards_zero(f, magnitude), sign))


def floor(f: Function, x: Value) -> Value:
    """The greatest integer that is not above x."""
    magnitude, sign = _parts(f, x)
    negative = f.compare("<", sign, 0)
    rounded = f.select(negative, _away_from_zero(f, magnitude), _towards_zero(f, magnitude))
    return f.from_bits(f.or_(rounded, sign))


def ceil(f: Function, x: Value) -> Value:
    """The least integer that is not below x."""
    magnitude, sign = _parts(f, x)
    negative = f.compare("<", sign, 0)
    rounded = f.select(negative, _towards_zero(f, magnitude), _away_from_zero(f, magnitude))
    return f.from_bits(f.or_(rounded, sign))


def round_half_even(f: Function, x: Value) -> Value:
    """The nearest integer, the even one of two."""
    magnitude, sign = _parts(f, x)
    mask = _fraction_mask(f, magnitude)
    # The lowest bit of the integer part lies just above the mask; from 2**23 on all of the mantissa is integer.
    odd = f.select(f.compare("==", f.and_(magnitude, f.add(mask, 1)), 0), 0, 1)
    addend = f.add(f.lshr(mask, 1), odd)
    large = f.and_(f.add(magnitude, f.select(f.compare("==", mask, 0), 0, addend)), f.xor(mask, -1))
    small = f.select(f.compare(">", magnitude, HALF), ONE, 0)
    return f.from_bits(f.or_(f.select(f.compare("<", magnitude, ONE), small, large), sign))


def _parts(f: Function, x: Value) -> tuple[Value, Value]:
    bits = f.bits(x)
    return f.and_(bits, SIGN - 1), f.and_(bits, SIGN)


def _fraction_mask(f: Function, magnitude: Value) -> Value:
    """The mantissa bits behind the point, of a magnitude of at least 1."""
    exponent = f.sub(f.lshr(magnitude, 23), 127)
    return f.lshr(f.const((1 << 23) - 1), f.minimum(f.maximum(exponent, 0), 23))


def _towards_zero(f: Function, magnitude: Value) -> Value:
    kept = f.and_(magnitude, f.xor(_fraction_mask(f, magnitude), -1))
    return f.select(f.compare("<", magnitude, ONE), 0, kept)


def _away_from_zero(f: Function, magnitude: Value) -> Value:
    mask = _fraction_mask(f, magnitude)
    # A carry out of the mantissa raises the exponent, which is what it should.
    raised = f.and_(f.add(magnitude, mask), f.xor(mask, -1))
    small = f.select(f.compare("==", magnitude, 0), 0, ONE)
    return f.select(f.compare("<", magnitude, ONE), small, raised)
