# SPDX-License-Identifier: Apache-2.0
"""The instruction sets whose layers run on the shared scalar kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.codegen.builder import Function, Value
from compiler.kernels.kernel import CompileOptions, Lowered
from compiler.kernels.problems import Conv2D, DepthwiseConv2D, FullyConnected
from compiler.kernels.scalar import coded_lowering, conv_pairs_lowering
from compiler.kernels.scalar import conv_lowering as conv_scalar_lowering
from compiler.kernels.scalar.conv_product import Blocking, Product, conv_product, fully_connected_product
from compiler.kernels.scalar.core import Multiplier, ScalarCore
from compiler.kernels.scalar.depthwise_lowering import DepthwiseBlocking, lower_depthwise_conv_2d
from compiler.kernels.winograd import lowering_scalar as winograd_lowering_scalar
from compiler.kernels.winograd.lowering_scalar import WinogradForms


@dataclass(frozen=True)
class ScalarIsa:
    """An `Isa` made of a core's primitives and the block shapes that suit it. `coded`: weights may be code. `other`:
    further lowerings, by other primitives of the same core."""

    name: str
    core: ScalarCore
    blocking: Blocking
    depthwise: DepthwiseBlocking
    winograd: WinogradForms | None = None
    has_float_unit: bool = False
    coded: bool = False
    other: ScalarIsa | None = None

    @property
    def options(self) -> CompileOptions:
        return self.core.options

    @property
    def has_multiplier(self) -> bool:
        """Whether the core multiplies by an instruction."""
        return self.core.multiplier in (Multiplier.HIGH, Multiplier.LOW)

    def conv_2d(self, layer: Conv2D) -> Lowered:
        winograd = winograd_lowering_scalar.alternatives(self.core, self.winograd, layer) if self.winograd else ()
        other = self.other.conv_2d(layer) if self.other else None
        return _with(self._product(conv_product(layer)), *winograd, other)

    def depthwise_conv_2d(self, layer: DepthwiseConv2D) -> Lowered:
        coded = coded_lowering.lower_depthwise(layer) if self.coded else None
        other = self.other.depthwise_conv_2d(layer) if self.other else None
        return _with(lower_depthwise_conv_2d(self.core, self.depthwise, layer), coded, other)

    def fully_connected(self, layer: FullyConnected) -> Lowered:
        other = self.other.fully_connected(layer) if self.other else None
        return _with(self._product(fully_connected_product(layer)), other)

    def _product(self, product: Product) -> Lowered:
        """The quickest lowering within the scratch memory that a layer may take without asking, without a table for
        clamps; the alternatives are those that no other one beats, and the one with plain weights."""
        plain = conv_scalar_lowering.candidate(self.core, self.blocking, product)
        pairs = [c for c in conv_pairs_lowering.candidates(self.core, self.blocking, product) if c.cost < plain.cost]
        first = min((plain, *(c for c in pairs if c.modest)), key=lambda c: c.cost)
        others = [c for c in (plain, *pairs) if c is not first and not any(other.beats(c) for other in pairs)]
        spared = product.spared(self.core)
        tables = [c.with_table(spared) for c in (first, *others)] if spared else []
        lowered = (c.lowered() for c in (first, *others, *tables))
        coded = coded_lowering.lower(product) if self.coded else None
        compact = conv_scalar_lowering.compact_lowerings(self.core, self.blocking, product)
        return _with(replace(next(lowered), alternatives=tuple(lowered)), coded, *compact)

    def multiply_high(self, f: Function, a: Value, b: Value) -> Value:
        """(a * b) >> 32 of signed i32 values."""
        return self.core.multiply_high(f, a, b)

    def saturate_int8(self, f: Function, value: Value) -> Value:
        """An i32 clamped to -128..127."""
        return self.core.saturate_int8(f, value)


def _with(lowered: Lowered, *others: Lowered | None) -> Lowered:
    """With others, and theirs, as further alternatives."""
    more = [each for other in others if other for each in (replace(other, alternatives=()), *other.alternatives)]
    return replace(lowered, alternatives=(*lowered.alternatives, *more))
