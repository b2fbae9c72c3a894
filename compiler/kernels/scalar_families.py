# SPDX-License-Identifier: Apache-2.0
"""The instruction sets whose layers run on the shared scalar kernels."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.codegen.builder import Function, Value
from compiler.kernels import conv_pairs_lowering, conv_scalar_lowering
from compiler.kernels.conv_product_scalar import Blocking, Product, conv_product, fully_connected_product
from compiler.kernels.depthwise_scalar_lowering import DepthwiseBlocking, lower_depthwise_conv_2d
from compiler.kernels.kernel import CompileOptions, Lowered
from compiler.kernels.problems import Conv2D, DepthwiseConv2D, FullyConnected
from compiler.kernels.scalar_core import ScalarCore


@dataclass(frozen=True)
class ScalarIsa:
    """An `Isa` made of a core's primitives and the block shapes that suit it."""

    name: str
    core: ScalarCore
    blocking: Blocking
    depthwise: DepthwiseBlocking
    has_float_unit: bool = False

    @property
    def options(self) -> CompileOptions:
        return self.core.options

    def conv_2d(self, layer: Conv2D) -> Lowered:
        return self._product(conv_product(layer))

    def depthwise_conv_2d(self, layer: DepthwiseConv2D) -> Lowered:
        return lower_depthwise_conv_2d(self.core, self.depthwise, layer)

    def fully_connected(self, layer: FullyConnected) -> Lowered:
        return self._product(fully_connected_product(layer))

    def _product(self, product: Product) -> Lowered:
        best = conv_scalar_lowering.candidate(self.core, self.blocking, product)
        for other in conv_pairs_lowering.candidates(self.core, self.blocking, product):
            if other.cost < best.cost:
                best = other
        return best.build()

    def multiply_high(self, f: Function, a: Value, b: Value) -> Value:
        """(a * b) >> 32 of signed i32 values."""
        return self.core.multiply_high(f, a, b)

    def saturate_int8(self, f: Function, value: Value) -> Value:
        """An i32 clamped to -128..127."""
        return self.core.saturate_int8(f, value)
