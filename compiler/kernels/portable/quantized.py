# SPDX-License-Identifier: Apache-2.0
"""Formulas of quantised values: linear forms that a proof allows, sums and rescales in the reference's steps.

`whole`: the clamp is the range of int8, so that the parameters `minimum` and `maximum` need not be read.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.builder import Function, Value
from compiler.codegen.requantize import Multiplier, clamp, multiply_by_quantized_multiplier
from compiler.isa import Isa
from compiler.kernels.portable.formula import Formula
from compiler.kernels.portable.loops import Element

LEFT_SHIFTS = {Element.INT8: 20, Element.UINT8: 20, Element.INT16: 15}
"""By how much ADD and SUB shift their inputs left."""
CLAMP = ("minimum", "maximum")


def linear(inputs: int, nudged: bool, whole: bool) -> Formula:
    """A proven linear form, with its nudge if `nudged`."""

    def emit(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
        start, rounding, shift, nudge, *bounds = parameters[inputs:]
        total = start
        for value, factor in zip(operands, parameters[:inputs], strict=True):
            total = f.add(total, f.mul(value, factor))
        if nudged:
            total = f.add(total, f.sub(rounding, f.and_(f.ashr(total, 31), nudge)))
        return _clamped(f, isa, f.ashr(total, shift), bounds, whole)

    factors = (f"factor{i}" for i in range(inputs))
    name = f"linear{'_n' if nudged else ''}{'_w' if whole else ''}"
    return Formula(name, emit, (*factors, "start", "rounding", "shift", "nudge", *CLAMP))


def exact_sum(element: Element, subtract: bool, whole: bool) -> Formula:
    """ADD or SUB in the reference's steps: each input shifted left and scaled, then the sum or difference scaled."""
    small, left = element is not Element.INT16, LEFT_SHIFTS[element]

    def emit(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
        multiplier, right, zero_point, *bounds = parameters[6:]
        scaled = []
        scales = (parameters[:6:3], parameters[1:6:3], parameters[2:6:3])
        for value, zero, by, shift in zip(operands, *scales, strict=True):
            shifted = f.shl(f.sub(value, zero), left)
            scaled.append(multiply_by_quantized_multiplier(f, isa, shifted, Multiplier(by, 0, shift), small))
        total = f.sub(*scaled) if subtract else f.add(*scaled)
        result = multiply_by_quantized_multiplier(f, isa, total, Multiplier(multiplier, 0, right), small)
        return _clamped(f, isa, f.add(result, zero_point), bounds, whole)

    inputs = (f"{part}{i}" for i in range(2) for part in ("zero", "multiplier", "right"))
    name = f"{'sub' if subtract else 'add'}{'_w' if whole else ''}"
    return Formula(name, emit, (*inputs, "multiplier", "right", "zero_point", *CLAMP))


def rescale(whole: bool) -> Formula:
    """A requantisation in the reference's steps; the result is known to stay within 30 bits."""

    def emit(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
        zero, multiplier, left, right, zero_point, *bounds = parameters
        by = Multiplier(multiplier, left, right)
        scaled = multiply_by_quantized_multiplier(f, isa, f.sub(operands[0], zero), by)
        return _clamped(f, isa, f.add(scaled, zero_point), bounds, whole)

    return Formula(
        f"rescale{'_w' if whole else ''}", emit, ("zero", "multiplier", "left", "right", "zero_point", *CLAMP)
    )


def _clamped(f: Function, isa: Isa, value: Value, bounds: Sequence[Value], whole: bool) -> Value:
    minimum, maximum = bounds
    return clamp(f, isa, value, -128, 127) if whole else clamp(f, isa, value, minimum, maximum)
