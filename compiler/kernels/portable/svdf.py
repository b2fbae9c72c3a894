# SPDX-License-Identifier: Apache-2.0
"""Kernels of SVDF: a row of past features for each filter, shifted by one and multiplied by weights over time.

Source: TensorFlow Lite Micro, kernels/svdf_common.cc. The reference shifts all rows, then multiplies; here a row is
shifted while it is multiplied, which gives the same sums.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from compiler.codegen.builder import F32, I8, I32, Value
from compiler.codegen.requantize import Multiplier, multiply_by_quantized_multiplier
from compiler.isa import PairIsa
from compiler.kernels.floats.functions import clamp
from compiler.kernels.kernel import KernelFunction
from compiler.kernels.portable.loops import Element, PortableKernel

QUAD = 4


@dataclass(frozen=True)
class SvdfKernel(PortableKernel):
    """The walk over batches, units and filters: `input_lanes` inputs and `past_lanes` old features a step. With
    `past_lanes` 0 a row holds the newest feature alone. `past_bytes` are those of the older features of a row."""

    input_lanes: int
    past_lanes: int

    shape: ClassVar[tuple[str, ...]] = (
        "input", "weights", "time_weights", "feature_bias", "bias", "state", "output",
        "batches", "units", "rank", "input_bytes", "past_bytes",
    )  # fmt: skip

    @property
    @abstractmethod
    def feature(self) -> Element:
        """The type of inputs and weights."""

    @property
    @abstractmethod
    def element(self) -> Element:
        """The type of the state and of the weights over time."""

    @abstractmethod
    def multiply_add(self, f: KernelFunction, total: Value, a: Value, b: Value) -> Value: ...

    def products(self, f: KernelFunction, total: Value, x: Value, weights: Value) -> Value:
        """`total` plus a step's products of inputs and weights."""
        width = self.feature.bytes
        for lane in range(self.input_lanes):
            a, b = (self.feature.load(f, pointer, lane * width) for pointer in (x, weights))
            total = self.multiply_add(f, total, a, b)
        return total

    @abstractmethod
    def newest(self, f: KernelFunction, total: Value) -> Value:
        """The feature to store, of a sum of products."""

    @abstractmethod
    def result(self, f: KernelFunction, total: Value) -> Value:
        """The output to store, of a unit's sum."""

    def build(self, f: KernelFunction) -> None:
        def batch(_: Value, carried: list[Value]) -> list[Value]:
            source, state, output = carried
            state, output = self._units(f, source, state, output)
            return [f.offset(source, f.integer("input_bytes")), state, output]

        f.loop(f.integer("batches"), batch, [f.pointer("input"), f.pointer("state"), f.pointer("output")])

    def _units(self, f: KernelFunction, source: Value, state: Value, output: Value) -> tuple[Value, Value]:
        def unit(_: Value, carried: list[Value]) -> list[Value]:
            state, weights, times, feature_bias, bias, output = carried
            first = f.load(F32 if self.element is Element.FLOAT32 else I32, bias)

            def one(_: Value, carried: list[Value]) -> list[Value]:
                return self._filter(f, source, *carried)

            state, weights, times, feature_bias, total = f.loop(
                f.integer("rank"), one, [state, weights, times, feature_bias, first]
            )
            self.feature.store(f, self.result(f, total), output)
            output = f.offset(output, self.feature.bytes)
            return [state, weights, times, feature_bias, f.offset(bias, 4), output]

        names = ("weights", "time_weights", "feature_bias", "bias")
        after = f.loop(f.integer("units"), unit, [state, *(f.pointer(name) for name in names), output])
        return after[0], after[-1]

    def _filter(
        self, f: KernelFunction, source: Value, state: Value, weights: Value, times: Value, bias: Value, total: Value
    ) -> list[Value]:
        """One row; returns the next row's addresses and the unit's sum."""
        size = self.element.bytes
        is_float = self.element is Element.FLOAT32
        part: Value = f.float(0.0) if is_float else total
        if self.past_lanes:

            def past(state: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
                times, part = carried
                for lane in range(self.past_lanes):
                    older = self.element.load(f, state, (lane + 1) * size)
                    self.element.store(f, older, state, lane * size)
                    part = self.multiply_add(f, part, older, self.element.load(f, times, lane * size))
                return f.offset(state, self.past_lanes * size), [f.offset(times, self.past_lanes * size), part]

            end = f.offset(state, f.integer("past_bytes"))
            state, (times, part) = f.loop_until(end, state, past, [times, part])

        def product(x: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            weights, dot = carried
            dot = self.products(f, dot, x, weights)
            step = self.input_lanes * self.feature.bytes
            return f.offset(x, step), [f.offset(weights, step), dot]

        first = f.float(0.0) if is_float else f.load_i32(bias)
        end = f.offset(source, f.integer("input_bytes"))
        _, (weights, dot) = f.loop_until(end, source, product, [weights, first])
        feature = self.newest(f, dot)
        self.element.store(f, feature, state)
        part = self.multiply_add(f, part, feature, self.element.load(f, times))
        return [
            f.offset(state, size),
            weights,
            f.offset(times, size),
            bias if is_float else f.offset(bias, 4),
            f.fadd(total, part) if is_float else part,
        ]


@dataclass(frozen=True)
class IntegerSvdf(SvdfKernel):
    """int8 inputs and outputs, a state of int8 or int16. The two biases hold the parts of the zero points. With `quads`
    four inputs are multiplied by pairs; rows of inputs start on 4 bytes."""

    state: Element
    quads: bool

    parameters: ClassVar[tuple[str, ...]] = (
        *SvdfKernel.shape,
        "multiplier1", "left1", "right1", "zero1", "multiplier2", "left2", "right2", "zero2",
    )  # fmt: skip

    @property
    def name(self) -> str:
        quads = "_quads" if self.quads else ""
        return f"svdf_s8_{self.state.value}_x{self.input_lanes}_x{self.past_lanes}{quads}"

    @property
    def feature(self) -> Element:
        return Element.INT8

    @property
    def element(self) -> Element:
        return self.state

    def multiply_add(self, f: KernelFunction, total: Value, a: Value, b: Value) -> Value:
        return f.add(total, f.mul(a, b))

    def products(self, f: KernelFunction, total: Value, x: Value, weights: Value) -> Value:
        if not self.quads:
            return super().products(f, total, x, weights)
        isa = self.isa
        assert isinstance(isa, PairIsa)
        for quad in range(0, self.input_lanes, QUAD):
            pairs = (isa.extend_quad(f, f.load_i32(pointer, quad)) for pointer in (x, weights))
            for a, b in zip(*pairs, strict=True):
                total = isa.multiply_pairs(f, a, b, total)
        return total

    def newest(self, f: KernelFunction, total: Value) -> Value:
        value = f.add(_clamped(f, self._scaled(f, total, 1), self.state), f.integer("zero1"))
        # The reference adds the zero point behind the clamp, and keeps the low byte.
        return f.sext(f.trunc(value, I8)) if self.state is Element.INT8 else value

    def result(self, f: KernelFunction, total: Value) -> Value:
        return _clamped(f, f.add(self._scaled(f, total, 2), f.integer("zero2")), Element.INT8)

    def _scaled(self, f: KernelFunction, total: Value, step: int) -> Value:
        by = Multiplier(*(f.integer(f"{name}{step}") for name in ("multiplier", "left", "right")))
        return multiply_by_quantized_multiplier(f, self.isa, total, by)


def _clamped(f: KernelFunction, value: Value, to: Element) -> Value:
    limit = (1 << (8 * to.bytes - 1)) - 1
    return f.minimum(f.maximum(value, -limit - 1), limit)


@dataclass(frozen=True)
class FloatSvdf(SvdfKernel):
    """All float32. `feature_bias` is not read."""

    minimum: float
    maximum: float

    parameters: ClassVar[tuple[str, ...]] = SvdfKernel.shape

    @property
    def name(self) -> str:
        bounds = f"{self.minimum:g}_{self.maximum:g}".replace("-", "m").replace(".", "p")
        return f"svdf_f32_x{self.input_lanes}_x{self.past_lanes}_{bounds}"

    @property
    def feature(self) -> Element:
        return Element.FLOAT32

    @property
    def element(self) -> Element:
        return Element.FLOAT32

    def multiply_add(self, f: KernelFunction, total: Value, a: Value, b: Value) -> Value:
        return f.fadd(total, f.fmul(a, b))

    def newest(self, f: KernelFunction, total: Value) -> Value:
        return total

    def result(self, f: KernelFunction, total: Value) -> Value:
        return clamp(f, total, self.minimum, self.maximum)
