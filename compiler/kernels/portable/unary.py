# SPDX-License-Identifier: Apache-2.0
"""Elementwise kernels of one input: rescales of quantised values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from compiler.codegen.builder import Value
from compiler.codegen.requantize import Multiplier, multiply_by_quantized_multiplier
from compiler.kernels.kernel import KernelFunction
from compiler.kernels.portable.elementwise import Unary, emit_clamp, emit_rounding
from compiler.kernels.portable.loops import Element, PortableKernel


@dataclass(frozen=True)
class UnaryKernel(PortableKernel):
    """output = f(input), `lanes` elements a step."""

    source: Element
    target: Element
    lanes: int

    parameters: ClassVar[tuple[str, ...]] = ("input", "output", "output_bytes")

    @property
    def _suffix(self) -> str:
        return f"{self.source.value}_{self.target.value}_x{self.lanes}"

    def operation(self, f: KernelFunction) -> Unary:
        """Loads the operation's parameters, and returns what emits it."""
        raise NotImplementedError

    def build(self, f: KernelFunction) -> None:
        operation = self.operation(f)
        start = f.pointer("output")

        def body(output: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            (pointer,) = carried
            for lane in range(self.lanes):
                value = self.source.load(f, pointer, lane * self.source.bytes)
                self.target.store(f, operation(value), output, lane * self.target.bytes)
            return f.offset(output, self.lanes * self.target.bytes), [f.offset(pointer, self.lanes * self.source.bytes)]

        f.loop_until(f.offset(start, f.integer("output_bytes")), start, body, [f.pointer("input")])


@dataclass(frozen=True)
class LinearUnaryKernel(UnaryKernel):
    """A proven linear form of one input, with its nudge if `nudged`; `whole`: the clamp is the range of int8."""

    nudged: bool
    whole: bool

    parameters: ClassVar[tuple[str, ...]] = (
        *UnaryKernel.parameters, "factor", "start", "rounding", "shift", "nudge", "minimum", "maximum",
    )  # fmt: skip

    @property
    def name(self) -> str:
        return f"linear_{self._suffix}{'_n' if self.nudged else ''}{'_w' if self.whole else ''}"

    def operation(self, f: KernelFunction) -> Unary:
        finish, factor, start = (
            emit_rounding(f, self.isa, self.nudged, self.whole),
            f.integer("factor"),
            f.integer("start"),
        )
        return lambda value: finish(f.add(start, f.mul(value, factor)))


@dataclass(frozen=True)
class ExactRescaleKernel(UnaryKernel):
    """A requantisation in the reference's steps; the result is known to stay within 30 bits."""

    whole: bool

    parameters: ClassVar[tuple[str, ...]] = (
        *UnaryKernel.parameters, "zero", "multiplier", "left", "right", "zero_point", "minimum", "maximum",
    )  # fmt: skip

    @property
    def name(self) -> str:
        return f"rescale_{self._suffix}{'_w' if self.whole else ''}"

    def operation(self, f: KernelFunction) -> Unary:
        by = Multiplier(f.integer("multiplier"), f.integer("left"), f.integer("right"))
        zero, zero_point, finish = f.integer("zero"), f.integer("zero_point"), emit_clamp(f, self.isa, self.whole)

        def rescaled(value: Value) -> Value:
            scaled = multiply_by_quantized_multiplier(f, self.isa, f.sub(value, zero), by)
            return finish(f.add(scaled, zero_point))

        return rescaled
