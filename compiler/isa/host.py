# SPDX-License-Identifier: Apache-2.0
"""The building machine: plain kernels, since it is quick enough, and what it computes proves no core's kernels."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.codegen.builder import I32, I64, Function, Value
from compiler.kernels.kernel import CompileOptions, Lowered
from compiler.kernels.portable import plain_layers
from compiler.kernels.problems import Conv2D, DepthwiseConv2D, FullyConnected
from compiler.target import Target

_OPTIONS = CompileOptions(optimize=True)


@dataclass(frozen=True)
class HostIsa:
    """An `Isa` for any processor of 64 bits."""

    name: str = "host"
    options: CompileOptions = _OPTIONS
    has_float_unit: bool = True
    has_multiplier: bool = True

    def conv_2d(self, layer: Conv2D) -> Lowered:
        return plain_layers.conv_2d(self, layer)

    def depthwise_conv_2d(self, layer: DepthwiseConv2D) -> Lowered:
        return plain_layers.depthwise_conv_2d(self, layer)

    def fully_connected(self, layer: FullyConnected) -> Lowered:
        return plain_layers.fully_connected(self, layer)

    def multiply_high(self, f: Function, a: Value, b: Value) -> Value:
        """(a * b) >> 32 of signed i32 values."""
        return f.trunc(f.lshr(f.mul(f.sext(a, I64), f.sext(b, I64)), 32), I32)

    def saturate_int8(self, f: Function, value: Value) -> Value:
        """An i32 clamped to -128..127."""
        return f.maximum(f.minimum(value, 127), -128)


def isa(target: Target) -> HostIsa:
    del target
    return HostIsa()
