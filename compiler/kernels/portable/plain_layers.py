# SPDX-License-Identifier: Apache-2.0
"""int8 layers in the plainest form, for a core that need not be fast: one kernel for all geometries.

Convolutions, depthwise convolutions and fully connected layers are all grouped convolutions here. Taps outside the
input read a row of zero points, so that the inner loop has no border and the input's zero point is part of the bias.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from compiler.codegen.builder import Value
from compiler.codegen.requantize import Multiplier, clamp, multiply_by_quantized_multiplier, split_shift
from compiler.isa import Isa
from compiler.kernels.kernel import INPUT, OUTPUT, Argument, Constant, KernelCall, KernelFunction, Lowered
from compiler.kernels.portable.loops import PortableKernel
from compiler.kernels.problems import Conv2D, DepthwiseConv2D, FullyConnected, Requantization, Window

CHANNEL_BYTES = 16
"""Bias, multiplier, left and right shift of an output channel: i32 each."""
WEIGHT_BYTES = 2
"""int8 weights less a filter zero point need 9 bits."""


@dataclass(frozen=True)
class GroupedConvolution(PortableKernel):
    """Output pixels, then groups, then a group's channels: weights int16 in the order [output channel, row, column,
    input channel of the group]."""

    parameters: ClassVar[tuple[str, ...]] = (
        "input", "output", "weights", "channels", "padding", "input_height", "input_width", "input_channels",
        "output_height", "output_width", "groups", "group_channels", "depth", "kernel_height", "kernel_width",
        "stride_height", "stride_width", "dilation_height", "dilation_width", "pad_top", "pad_left", "zero_point",
        "minimum", "maximum",
    )  # fmt: skip

    @property
    def name(self) -> str:
        return "grouped_convolution_s8"

    def build(self, f: KernelFunction) -> None:
        def row(y: Value, carried: list[Value]) -> list[Value]:
            top = f.sub(f.mul(y, f.integer("stride_height")), f.integer("pad_top"))

            def column(x: Value, carried: list[Value]) -> list[Value]:
                left = f.sub(f.mul(x, f.integer("stride_width")), f.integer("pad_left"))
                return self._pixel(f, top, left, carried[0])

            return f.loop(f.integer("output_width"), column, carried)

        f.loop(f.integer("output_height"), row, [f.pointer("output")])

    def _pixel(self, f: KernelFunction, top: Value, left: Value, output: Value) -> list[Value]:
        def group(index: Value, carried: list[Value]) -> list[Value]:
            first = f.mul(index, f.integer("depth"))

            def channel(_: Value, carried: list[Value]) -> list[Value]:
                weights, entry, output = carried
                weights, total = self._sum(f, top, left, first, weights, f.load_i32(entry))
                by = Multiplier(f.load_i32(entry, 4), f.load_i32(entry, 8), f.load_i32(entry, 12))
                value = multiply_by_quantized_multiplier(f, self.isa, total, by)
                # Products of 31 bits and a zero point: clamped before the sum, which could overflow.
                value = f.maximum(f.minimum(value, 1 << 29), -(1 << 29))
                value = f.add(value, f.integer("zero_point"))
                f.store_i8(clamp(f, self.isa, value, f.integer("minimum"), f.integer("maximum")), output)
                return [weights, f.offset(entry, CHANNEL_BYTES), f.offset(output, 1)]

            return f.loop(f.integer("group_channels"), channel, carried)

        start = [f.pointer("weights"), f.pointer("channels"), output]
        return f.loop(f.integer("groups"), group, start)[2:]

    def _sum(
        self, f: KernelFunction, top: Value, left: Value, first: Value, weights: Value, bias: Value
    ) -> tuple[Value, Value]:
        """`bias` and the products of one output; the weights behind them."""

        def tap_row(j: Value, carried: list[Value]) -> list[Value]:
            y = f.add(top, f.mul(j, f.integer("dilation_height")))
            y_inside = f.compare_unsigned("<", y, f.integer("input_height"))

            def tap(i: Value, carried: list[Value]) -> list[Value]:
                x = f.add(left, f.mul(i, f.integer("dilation_width")))
                inside = f.and_(y_inside, f.compare_unsigned("<", x, f.integer("input_width")))
                at = f.mul(f.add(f.mul(y, f.integer("input_width")), x), f.integer("input_channels"))
                pixel = f.offset(f.pointer("input"), f.select(inside, at, 0))
                cell = f.offset(f.builder.select(inside, pixel, f.pointer("padding")), first)

                def element(_: Value, carried: list[Value]) -> list[Value]:
                    cell, weights, total = carried
                    product = f.mul(f.load_s8(cell), f.load_s16(weights))
                    return [f.offset(cell, 1), f.offset(weights, WEIGHT_BYTES), f.add(total, product)]

                return f.loop(f.integer("depth"), element, [cell, *carried])[1:]

            return f.loop(f.integer("kernel_width"), tap, carried)

        weights, total = f.loop(f.integer("kernel_height"), tap_row, [weights, bias])
        return weights, total


def conv_2d(isa: Isa, layer: Conv2D) -> Lowered:
    """A convolution of one image, of any geometry."""
    call = _call(isa, layer.window, 1, layer.weights, layer.bias, layer.input_zero_point, layer.requantization)
    return Lowered((call,), macs=layer.macs)


def depthwise_conv_2d(isa: Isa, layer: DepthwiseConv2D) -> Lowered:
    """A depthwise convolution of one image: as many groups as input channels."""
    w, weights = layer.window, layer.weights.transpose(2, 0, 1)[..., None]
    call = _call(isa, w, w.input_channels, weights, layer.bias, layer.input_zero_point, layer.requantization)
    return Lowered((call,), macs=layer.macs)


def fully_connected(isa: Isa, layer: FullyConnected) -> Lowered:
    """A 1x1 convolution of `batches` pixels."""
    outputs, depth = layer.weights.shape
    window = Window(layer.batches, 1, depth, layer.batches, 1, outputs, 1, 1, 1, 1, 0, 0)
    weights = layer.weights.astype(np.int16).reshape(outputs, 1, 1, depth) - layer.filter_zero_point
    call = _call(isa, window, 1, weights, layer.bias, layer.input_zero_point, layer.requantization)
    return Lowered((call,), macs=layer.macs)


def _call(
    isa: Isa,
    w: Window,
    groups: int,
    weights: NDArray[np.integer],
    bias: NDArray[np.int64],
    input_zero_point: int,
    r: Requantization,
) -> KernelCall:
    """The call for weights [output_channels, kernel_height, kernel_width, input channels of a group]."""
    start = bias - input_zero_point * weights.astype(np.int64).sum(axis=(1, 2, 3))
    shifts = np.array([split_shift(int(s)) for s in r.shifts])
    channels = np.column_stack([start, r.multipliers, shifts])
    arguments: dict[str, Argument] = {
        "input": INPUT,
        "output": OUTPUT,
        "weights": Constant(np.ascontiguousarray(weights).astype("<i2").tobytes()),
        "channels": Constant((channels & 0xFFFFFFFF).astype("<u4").tobytes()),
        "padding": Constant(np.full(w.input_channels, input_zero_point, np.int8).tobytes()),
        "input_height": w.input_height,
        "input_width": w.input_width,
        "input_channels": w.input_channels,
        "output_height": w.output_height,
        "output_width": w.output_width,
        "groups": groups,
        "group_channels": w.output_channels // groups,
        "depth": weights.shape[3],
        "kernel_height": w.kernel_height,
        "kernel_width": w.kernel_width,
        "stride_height": w.stride_height,
        "stride_width": w.stride_width,
        "dilation_height": w.dilation_height,
        "dilation_width": w.dilation_width,
        "pad_top": w.pad_top,
        "pad_left": w.pad_left,
        "zero_point": r.zero_point,
        "minimum": r.minimum,
        "maximum": r.maximum,
    }
    kernel = GroupedConvolution(isa)
    return KernelCall(kernel, tuple(arguments[name] for name in kernel.parameters))
