# SPDX-License-Identifier: Apache-2.0
"""Armv8.1-M with Helium (Cortex-M55): which kernel family runs which layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.codegen.builder import I32, I64, Function, Value
from compiler.kernels.dsp.instructions import extend_quad, smlad
from compiler.kernels.kernel import CompileOptions, Lowered
from compiler.kernels.mve import (
    conv_ring,
    depthwise,
    depthwise_columns,
    depthwise_plane,
    fully_connected,
    patch,
    pointwise,
    pools,
    sums,
)
from compiler.kernels.mve.products import products_cost
from compiler.kernels.mve.vector import CHUNK
from compiler.kernels.problems import Conv2D, DepthwiseConv2D, FullyConnected, IntegerSum, Window
from compiler.target import FloatUnit, Target

_PORTABLE = CompileOptions(optimize=True)


@dataclass(frozen=True)
class Mve:
    name: str = "mve"
    options: CompileOptions = _PORTABLE
    has_float_unit: bool = False
    has_multiplier: bool = True

    def conv_2d(self, layer: Conv2D) -> Lowered:
        w = layer.window
        pixels = w.output_height * w.output_width
        if w.is_pointwise or _is_whole_image(w):
            return _matrix(_as_matrix(layer, pixels))
        if conv_ring.fits(layer):
            return conv_ring.lower(layer)
        return patch.lower(layer)

    def depthwise_conv_2d(self, layer: DepthwiseConv2D) -> Lowered:
        if layer.window.input_channels == 1:
            return self.conv_2d(_as_plain(layer))
        if depthwise_plane.fits(layer):
            return depthwise_plane.lower(layer)
        if depthwise_columns.fits(layer):
            return depthwise_columns.lower(layer)
        return depthwise.lower(layer)

    def fully_connected(self, layer: FullyConnected) -> Lowered:
        return _matrix(layer)

    def integer_sum(self, layer: IntegerSum) -> Lowered:
        return sums.lower(layer)

    def max_pool(self, w: Window, bounds: tuple[int, int] | None) -> Lowered:
        return pools.max_pool(self, w, bounds)

    def average_pool(self, w: Window, bounds: tuple[int, int] | None) -> Lowered | None:
        if w.kernel_height * w.kernel_width > pools.MOST_CELLS:
            return None
        return pools.average_pool(self, w, bounds)

    def extend_quad(self, f: Function, word: Value) -> tuple[Value, Value]:
        return extend_quad(f, word)

    def multiply_pairs(self, f: Function, a: Value, b: Value, total: Value) -> Value:
        return smlad(f, a, b, total)

    def multiply_high(self, f: Function, a: Value, b: Value) -> Value:
        """SMMUL."""
        product = f.mul(f.sext(a, I64), f.sext(b, I64))
        return f.trunc(f.ashr(product, 32), I32)

    def saturate_int8(self, f: Function, value: Value) -> Value:
        """SSAT."""
        return f.intrinsic("llvm.arm.ssat", I32, [value, 8])


def _matrix(layer: FullyConnected) -> Lowered:
    """A matrix product by the family that takes fewer instructions."""
    outputs, depth = layer.weights.shape
    if not pointwise.takes(layer.batches, depth) or layer.filter_zero_point:
        return fully_connected.lower(layer)
    by_pixels = products_cost(-(-depth // CHUNK), layer.batches, outputs, pointwise.GROUPS)
    if by_pixels <= fully_connected.cost(depth, layer.batches, outputs):
        return pointwise.lower(_as_convolution(layer))
    return fully_connected.lower(layer)


def _is_whole_image(w: Window) -> bool:
    """One output pixel whose window is the whole input."""
    return (w.output_height, w.output_width) == (1, 1) and (w.kernel_height, w.kernel_width) == (
        w.input_height,
        w.input_width,
    )


def _as_plain(layer: DepthwiseConv2D) -> Conv2D:
    """With one input channel every output channel reads it: an ordinary convolution."""
    weights = np.ascontiguousarray(layer.weights.transpose(2, 0, 1))[..., None]
    return Conv2D(layer.window, weights, layer.bias, layer.input_zero_point, layer.requantization)


def _as_matrix(layer: Conv2D, pixels: int) -> FullyConnected:
    weights = layer.weights.reshape(layer.window.output_channels, -1)
    return FullyConnected(pixels, weights, layer.bias, layer.input_zero_point, 0, layer.requantization)


def _as_convolution(layer: FullyConnected) -> Conv2D:
    outputs, depth = layer.weights.shape
    window = Window(1, layer.batches, depth, 1, layer.batches, outputs, 1, 1, 1, 1, 0, 0)
    weights = layer.weights.reshape(outputs, 1, 1, depth)
    return Conv2D(window, weights, layer.bias, layer.input_zero_point, layer.requantization)


def isa(target: Target) -> Mve:
    return Mve(has_float_unit=target.float_unit is not FloatUnit.NONE)
