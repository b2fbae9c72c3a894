# SPDX-License-Identifier: Apache-2.0
"""Leaky rectifiers: one factor from zero on, another below."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from compiler.codegen.builder import F32, Value
from compiler.codegen.requantize import Multiplier, multiply_by_quantized_multiplier, split_shift
from compiler.isa import Isa
from compiler.kernels.floats.functions import float_bits
from compiler.kernels.kernel import INPUT, OUTPUT, KernelCall, KernelFunction, Lowered
from compiler.kernels.portable.maps import MapKernel


def float_leaky_relu(isa: Isa, count: int, alpha: float) -> Lowered:
    """`count` floats."""
    bits = float_bits(alpha)
    argument = bits - (1 << 32) if bits >> 31 else bits
    return Lowered((KernelCall(FloatLeakyRelu(isa), (INPUT, OUTPUT, count, argument)),))


def int16_leaky_relu(isa: Isa, count: int, above: tuple[int, int], below: tuple[int, int]) -> Lowered:
    """`count` int16 values without zero points; quantised multipliers for values from 0 on and below 0."""
    factors = (n for multiplier, shift in (above, below) for n in (multiplier, *split_shift(shift)))
    return Lowered((KernelCall(Int16LeakyRelu(isa), (INPUT, OUTPUT, count, *factors)),))


@dataclass(frozen=True)
class FloatLeakyRelu(MapKernel):
    """float32."""

    parameters: ClassVar[tuple[str, ...]] = ("input", "output", "count", "alpha")

    @property
    def name(self) -> str:
        return "leaky_relu_f32"

    @property
    def sizes(self) -> tuple[int, int]:
        return 4, 4

    def element(self, f: KernelFunction, source: Value, target: Value, lane: int) -> None:
        value = f.load(F32, source)
        below = f.fmul(value, f.from_bits(f.integer("alpha")))
        f.store(f.builder.select(f.compare("<", f.bits(value), 0), below, value), target)


@dataclass(frozen=True)
class Int16LeakyRelu(MapKernel):
    """int16, saturated."""

    parameters: ClassVar[tuple[str, ...]] = (
        "input", "output", "count",
        "above_multiplier", "above_left", "above_right", "below_multiplier", "below_left", "below_right",
    )  # fmt: skip

    @property
    def name(self) -> str:
        return "leaky_relu_s16"

    @property
    def sizes(self) -> tuple[int, int]:
        return 2, 2

    def element(self, f: KernelFunction, source: Value, target: Value, lane: int) -> None:
        value = f.load_s16(source)
        is_below = f.compare("<", value, 0)
        multiplier, left, right = (
            f.select(is_below, f.integer(f"below_{part}"), f.integer(f"above_{part}"))
            for part in ("multiplier", "left", "right")
        )
        scaled = multiply_by_quantized_multiplier(f, self.isa, value, Multiplier(multiplier, left, right))
        f.store_i16(f.minimum(f.maximum(scaled, -32768), 32767), target)
