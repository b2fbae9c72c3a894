# SPDX-License-Identifier: Apache-2.0
"""Sums of int8 values less their zero point, rescaled to int8. See compiler.ops.raw_sums for the arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from compiler.codegen.builder import Function, Value
from compiler.codegen.requantize import Multiplier, clamp, multiply_by_quantized_multiplier
from compiler.isa import Isa
from compiler.kernels.kernel import KernelFunction
from compiler.kernels.portable.along import RunningSumKernel

SHIFT = 19
LIMIT = 1 << 31 - SHIFT
"""The first sum that overflows when it is shifted."""
PARAMETERS = ("multiplier", "right", "zero_point")


def rescaled(f: Function, isa: Isa, total: Value, multiplier: Value, right: Value, zero_point: Value) -> Value:
    """The output of a sum; sums from LIMIT on count as the last below it."""
    shifted = f.shl(clamp(f, isa, total, -LIMIT, LIMIT - 1), SHIFT)
    value = multiply_by_quantized_multiplier(f, isa, shifted, Multiplier(multiplier, 0, right))
    return clamp(f, isa, f.add(value, zero_point), -128, 127)


@dataclass(frozen=True)
class RescaledRunningSumKernel(RunningSumKernel):
    """Running sums of int8 elements less `input_zero`, from -`input_zero` on, each rescaled."""

    parameters: ClassVar[tuple[str, ...]] = (*RunningSumKernel.parameters, "input_zero", *PARAMETERS)

    @property
    def name(self) -> str:
        return f"rescaled_{super().name}"

    def first(self, f: KernelFunction) -> Value:
        return f.sub(0, f.integer("input_zero"))

    def following(self, f: KernelFunction, total: Value, value: Value) -> Value:
        return f.add(total, f.sub(value, f.integer("input_zero")))

    def finished(self, f: KernelFunction, total: Value) -> Value:
        return rescaled(f, self.isa, total, *(f.integer(name) for name in PARAMETERS))
