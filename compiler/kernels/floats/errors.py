# SPDX-License-Identifier: Apache-2.0
"""The error function, without libm, within 2**-23 for all floats.

Below 1 a minimax fit of erf(x) / x - 1 in x**2 (error 2**-29.7), above 1 - exp of a minimax fit of log(erfc(x)) on
[0.99, 4] (error of the result 2**-35), and 1 beyond 4, where erfc(x) is below 2**-25.
"""

from __future__ import annotations

from compiler.codegen.builder import Function, Value
from compiler.isa import Isa
from compiler.kernels.floats.functions import INFINITY_BITS, SIGN, exp, float_bits

SMALL_POLYNOMIAL = (
    0.12837916612625122, -0.3761262595653534, 0.11283600330352783, -0.026854444295167923, 0.005189535208046436,
    -0.0008020841632969677, 7.889120024628937e-05,
)  # fmt: skip
LARGE_POLYNOMIAL = (
    0.00018803593411576003, -1.1295783519744873, -0.6332198977470398, -0.1084185466170311, 0.025208240374922752,
    -0.004204556345939636, 0.00044133534538559616, -2.1686772015527822e-05,
)  # fmt: skip
GREATEST = 4.0


def erf(f: Function, isa: Isa, x: Value) -> Value:
    """erf(x); NaN stays NaN."""
    bits = f.bits(x)
    magnitude_bits = f.and_(bits, SIGN - 1)
    magnitude = f.from_bits(f.minimum(magnitude_bits, float_bits(GREATEST)))
    below = f.fadd(magnitude, f.fmul(magnitude, _polynomial(f, f.fmul(magnitude, magnitude), SMALL_POLYNOMIAL)))
    above = f.fsub(f.float(1.0), exp(f, isa, _polynomial(f, magnitude, LARGE_POLYNOMIAL)))
    result = f.bits(f.select(f.compare("<", magnitude_bits, float_bits(1.0)), below, above))
    result = f.select(f.compare(">=", magnitude_bits, float_bits(GREATEST)), float_bits(1.0), result)
    signed = f.or_(result, f.and_(bits, SIGN))
    return f.from_bits(f.select(f.compare(">", magnitude_bits, INFINITY_BITS), bits, signed))


def _polynomial(f: Function, x: Value, coefficients: tuple[float, ...]) -> Value:
    total: Value = f.float(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = f.fadd(f.fmul(total, x), f.float(coefficient))
    return total
