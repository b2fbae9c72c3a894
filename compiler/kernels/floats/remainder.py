# SPDX-License-Identifier: Apache-2.0
"""The remainder of a float division, exact, without libm: shift and subtract on the mantissas."""

from __future__ import annotations

from compiler.codegen.builder import Function, Value
from compiler.kernels.floats.functions import INFINITY_BITS, NAN_BITS, SIGN
from compiler.kernels.portable.fixed_point_ir import leading_zeros


def floor_remainder(f: Function, a: Value, b: Value) -> Value:
    """What floor(a / b) leaves, with the sign of b."""
    rest = remainder(f, a, b)
    zero = f.float(0.0)
    signs = f.xor(f.fcompare("<", rest, zero), f.fcompare("<", b, zero))
    return f.select(f.and_(f.fcompare("!=", rest, zero), signs), f.fadd(rest, b), rest)


def remainder(f: Function, a: Value, b: Value) -> Value:
    """C's fmod: what the truncated quotient leaves, with the sign of a. NaN where a is infinite or b is 0."""
    a_bits, b_bits = f.bits(a), f.bits(b)
    dividend, divisor = f.and_(a_bits, SIGN - 1), f.and_(b_bits, SIGN - 1)
    exponent, mantissa = _parts(f, dividend)
    divisor_exponent, divisor_mantissa = _parts(f, divisor)
    steps = f.maximum(f.sub(exponent, divisor_exponent), 0)

    def step(_: Value, carried: list[Value]) -> list[Value]:
        rest = carried[0]
        less = f.sub(rest, divisor_mantissa)
        return [f.shl(f.select(f.compare("<", less, 0), rest, less), 1)]

    (rest,) = f.loop(f.add(steps, 1), step, [mantissa])
    rest = f.lshr(rest, 1)
    # The rest is a whole number of the divisor's units: it becomes a float again by its first bit.
    shift = f.sub(leading_zeros(f, f.or_(rest, 1)), 8)
    power = f.sub(divisor_exponent, shift)
    normal = f.add(f.shl(f.sub(power, 1), 23), f.shl(rest, f.maximum(shift, 0)))
    raised = f.shl(rest, f.minimum(f.maximum(f.sub(divisor_exponent, 1), 0), 23))
    denormal = f.lshr(raised, f.minimum(f.maximum(f.sub(1, divisor_exponent), 0), 31))
    result = f.select(f.compare(">", power, 0), normal, denormal)
    result = f.select(f.compare("==", rest, 0), 0, result)
    result = f.select(f.compare("<", dividend, divisor), dividend, result)
    undefined = f.or_(f.compare(">=", dividend, INFINITY_BITS), f.compare("==", divisor, 0))
    result = f.select(f.or_(undefined, f.compare(">", divisor, INFINITY_BITS)), NAN_BITS, result)
    return f.from_bits(f.or_(result, f.and_(a_bits, SIGN)))


def _parts(f: Function, magnitude: Value) -> tuple[Value, Value]:
    """A finite magnitude that is not 0 as (biased exponent, mantissa of 24 bits); a denormal's exponent is below 1."""
    headroom = f.maximum(f.sub(leading_zeros(f, f.or_(magnitude, 1)), 8), 0)
    normal = f.compare(">=", magnitude, 1 << 23)
    mantissa = f.select(normal, f.or_(f.and_(magnitude, (1 << 23) - 1), 1 << 23), f.shl(magnitude, headroom))
    return f.select(normal, f.lshr(magnitude, 23), f.sub(1, headroom)), mantissa
