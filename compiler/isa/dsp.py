# SPDX-License-Identifier: Apache-2.0
"""Armv7E-M and Armv8-M Main with the DSP extension (Cortex-M4, M7, M33): SMLAD on pairs of int16."""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.codegen.builder import Function, Value
from compiler.isa import armv7m
from compiler.kernels.dsp.depthwise_lowering import lower_depthwise_conv_2d
from compiler.kernels.dsp.instructions import extend_quad, multiply_high_add, saturate, smlad
from compiler.kernels.dsp.patch_lowering import lower_conv_2d, lower_fully_connected
from compiler.kernels.kernel import CompileOptions, Lowered
from compiler.kernels.problems import Conv2D, DepthwiseConv2D, FullyConnected
from compiler.kernels.scalar.depthwise_lowering import packed_lowerings
from compiler.kernels.winograd import lowering_dsp as winograd_lowering_dsp
from compiler.target import FloatUnit, Target

_PORTABLE = CompileOptions(optimize=True)


@dataclass(frozen=True)
class Dsp:
    """Kernels of the DSP extension."""

    name: str = "dsp"
    options: CompileOptions = _PORTABLE
    has_float_unit: bool = False
    has_multiplier: bool = True

    def conv_2d(self, layer: Conv2D) -> Lowered:
        direct = lower_conv_2d(layer)
        return replace(direct, alternatives=(*direct.alternatives, *winograd_lowering_dsp.alternatives(layer)))

    def depthwise_conv_2d(self, layer: DepthwiseConv2D) -> Lowered:
        if layer.window.input_channels == 1:
            return lower_conv_2d(_as_conv_2d(layer))
        lowered = lower_depthwise_conv_2d(layer)
        packed = packed_lowerings(armv7m.CORE, armv7m.DEPTHWISE, layer)
        return replace(lowered, alternatives=(*lowered.alternatives, *packed))

    def fully_connected(self, layer: FullyConnected) -> Lowered:
        return lower_fully_connected(layer)

    def extend_quad(self, f: Function, word: Value) -> tuple[Value, Value]:
        return extend_quad(f, word)

    def multiply_pairs(self, f: Function, a: Value, b: Value, total: Value) -> Value:
        return smlad(f, a, b, total)

    def multiply_high(self, f: Function, a: Value, b: Value) -> Value:
        return multiply_high_add(f, a, b, 0)

    def saturate_int8(self, f: Function, value: Value) -> Value:
        return saturate(f, value)


def _as_conv_2d(layer: DepthwiseConv2D) -> Conv2D:
    """A depthwise convolution of one input channel is a convolution."""
    weights = layer.weights.transpose(2, 0, 1)[..., None]
    return Conv2D(layer.window, weights, layer.bias, layer.input_zero_point, layer.requantization)


def isa(target: Target) -> Dsp:
    return Dsp(has_float_unit=target.float_unit is not FloatUnit.NONE)
