# SPDX-License-Identifier: Apache-2.0
"""Armv8.1-M with Helium (Cortex-M55): which kernel family runs which layer."""

from __future__ import annotations

from compiler.codegen.builder import I32, I64, Function, Value
from compiler.kernels import patch_mve, pointwise_mve
from compiler.kernels.kernel import CompileOptions, Lowered
from compiler.kernels.problems import Conv2D, DepthwiseConv2D, FullyConnected
from compiler.kernels.products_mve import PIXELS
from compiler.target import Target


class Mve:
    name = "mve"
    options = CompileOptions(optimize=True)

    def conv_2d(self, layer: Conv2D) -> Lowered:
        w = layer.window
        if w.is_pointwise and w.output_height * w.output_width >= PIXELS:
            return pointwise_mve.lower(layer)
        return patch_mve.lower(layer)

    def depthwise_conv_2d(self, layer: DepthwiseConv2D) -> Lowered:
        raise NotImplementedError

    def fully_connected(self, layer: FullyConnected) -> Lowered:
        raise NotImplementedError

    def multiply_high(self, f: Function, a: Value, b: Value) -> Value:
        """SMMUL."""
        product = f.mul(f.sext(a, I64), f.sext(b, I64))
        return f.trunc(f.ashr(product, 32), I32)

    def saturate_int8(self, f: Function, value: Value) -> Value:
        """SSAT."""
        return f.intrinsic("llvm.arm.ssat", I32, [value, 8])


def isa(target: Target) -> Mve:
    return Mve()
