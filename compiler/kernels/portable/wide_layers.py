# SPDX-License-Identifier: Apache-2.0
"""int16x8 convolution, depthwise convolution and fully connected layers for any core.

A block of output channels shares each input element. Sums are kept in 32 bits where the weights prove that they fit,
else in 64.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from compiler.codegen.builder import I64, Value
from compiler.isa import Isa
from compiler.kernels.kernel import Constant, KernelCall, KernelFunction, Lowered
from compiler.kernels.portable.loops import lanes_of
from compiler.kernels.portable.rescale import CHANNEL_BYTES, Form, Rescale, emit_rescale, load_bias, rescale_of
from compiler.kernels.portable.windows import Patch, WindowKernel, window_arguments
from compiler.kernels.problems import Conv2D, DepthwiseConv2D, FullyConnected, Window

SAMPLE_BYTES = 2
LARGEST_SAMPLE = 1 << 15


@dataclass(frozen=True)
class WideKernel(WindowKernel):
    """What both kernels share: blocks of `lanes` output channels, rescaled in one `form`."""

    form: Form
    lanes: int

    parameters: ClassVar[tuple[str, ...]] = (
        *WindowKernel.parameters, "weights", "channels", "blocks", "tap_row_weights", "minimum", "maximum",
    )  # fmt: skip

    def accumulate(self, f: KernelFunction, sums: list[Value], products: list[Value]) -> list[Value]:
        if self.form is Form.LONG:
            products = [f.sext(p, I64) for p in products]
        return [f.add(s, p) for s, p in zip(sums, products, strict=True)]

    def biases(self, f: KernelFunction, channels: Value) -> list[Value]:
        return [load_bias(f, self.form, f.offset(channels, CHANNEL_BYTES * i)) for i in range(self.lanes)]

    def finish(self, f: KernelFunction, sums: list[Value], channels: Value, output: Value) -> None:
        for lane, total in enumerate(sums):
            entry = f.offset(channels, CHANNEL_BYTES * lane)
            value = emit_rescale(f, self.isa, self.form, total, entry, f.integer("minimum"), f.integer("maximum"))
            f.store_i16(value, output, SAMPLE_BYTES * lane)


@dataclass(frozen=True)
class WideConv2DKernel(WideKernel):
    """`joined`: the taps of a row are contiguous in the input, hence one tap."""

    joined: bool

    parameters: ClassVar[tuple[str, ...]] = (*WideKernel.parameters, "block_weights", "depth")

    @property
    def name(self) -> str:
        return f"conv_2d_s16_{self.form.value}_x{self.lanes}{'_joined' if self.joined else ''}"

    def window(self, f: KernelFunction, patch: Patch, output: Value, cut: Value) -> None:
        depth, column_step = f.integer("depth"), f.integer("tap_column_step")
        taps = f.mul(patch.column_taps, depth) if self.joined else patch.column_taps

        def element(_: Value, carried: list[Value]) -> list[Value]:
            cell, weights, *sums = carried
            x = f.load_s16(cell)
            products = [f.mul(x, f.load_s8(weights, lane)) for lane in range(self.lanes)]
            return [f.offset(cell, SAMPLE_BYTES), f.offset(weights, self.lanes), *self.accumulate(f, sums, products)]

        def tap(_: Value, carried: list[Value]) -> list[Value]:
            cell, *rest = carried
            _, *rest = f.loop(depth, element, [cell, *rest])
            return [f.offset(cell, column_step), *rest]

        def tap_row(_: Value, carried: list[Value]) -> list[Value]:
            row, row_weights, *sums = carried
            _, _, *sums = f.loop(taps, element if self.joined else tap, [row, row_weights, *sums])
            return [
                f.offset(row, f.integer("tap_row_step")), f.offset(row_weights, f.integer("tap_row_weights")), *sums,
            ]  # fmt: skip

        def block(_: Value, carried: list[Value]) -> list[Value]:
            weights, channels, output = carried
            start = [patch.cell, f.offset(weights, patch.tap_offset), *self.biases(f, channels)]
            _, _, *sums = f.loop(patch.row_taps, tap_row, start)
            self.finish(f, sums, channels, output)
            return [
                f.offset(weights, f.integer("block_weights")), f.offset(channels, CHANNEL_BYTES * self.lanes),
                f.offset(output, SAMPLE_BYTES * self.lanes),
            ]  # fmt: skip

        f.loop(f.integer("blocks"), block, [f.pointer("weights"), f.pointer("channels"), output])


@dataclass(frozen=True)
class WideDepthwiseKernel(WideKernel):
    """`shared`: a block's channels come from one input channel, `blocks` blocks from each; else from one each."""

    shared: bool

    parameters: ClassVar[tuple[str, ...]] = (*WideKernel.parameters, "inputs", "block_weights")

    @property
    def name(self) -> str:
        return f"depthwise_conv_2d_s16_{self.form.value}_x{self.lanes}{'_shared' if self.shared else ''}"

    def window(self, f: KernelFunction, patch: Patch, output: Value, cut: Value) -> None:
        column_step = f.integer("tap_column_step")

        def tap(_: Value, carried: list[Value]) -> list[Value]:
            cell, weights, *sums = carried
            if self.shared:
                values = [f.load_s16(cell)] * self.lanes
            else:
                values = [f.load_s16(cell, SAMPLE_BYTES * lane) for lane in range(self.lanes)]
            products = [f.mul(x, f.load_s8(weights, lane)) for lane, x in enumerate(values)]
            return [
                f.offset(cell, column_step), f.offset(weights, self.lanes),
                *self.accumulate(f, sums, products),
            ]  # fmt: skip

        def tap_row(_: Value, carried: list[Value]) -> list[Value]:
            row, row_weights, *sums = carried
            _, _, *sums = f.loop(patch.column_taps, tap, [row, row_weights, *sums])
            return [
                f.offset(row, f.integer("tap_row_step")), f.offset(row_weights, f.integer("tap_row_weights")), *sums,
            ]  # fmt: skip

        def source(_: Value, carried: list[Value]) -> list[Value]:
            cell, *rest = carried

            def block(_: Value, carried: list[Value]) -> list[Value]:
                weights, channels, output = carried
                start = [cell, f.offset(weights, patch.tap_offset), *self.biases(f, channels)]
                _, _, *sums = f.loop(patch.row_taps, tap_row, start)
                self.finish(f, sums, channels, output)
                return [
                    f.offset(weights, f.integer("block_weights")), f.offset(channels, CHANNEL_BYTES * self.lanes),
                    f.offset(output, SAMPLE_BYTES * self.lanes),
                ]  # fmt: skip

            blocks = f.integer("blocks") if self.shared else 1
            rest = f.loop(blocks, block, rest)
            return [f.offset(cell, SAMPLE_BYTES if self.shared else SAMPLE_BYTES * self.lanes), *rest]

        start = [patch.cell, f.pointer("weights"), f.pointer("channels"), output]
        f.loop(f.integer("inputs"), source, start)


def conv_2d(isa: Isa, layer: Conv2D) -> Lowered:
    """An int16x8 convolution of one image. Each window must cover a cell of the input."""
    w = layer.window
    products = np.abs(layer.weights.astype(np.int64)).sum(axis=(1, 2, 3)) * LARGEST_SAMPLE
    rescale = rescale_of(layer.requantization, layer.bias, products, layer.wide)
    joined = w.dilation_width == 1
    calls = []
    for first, end, lanes in _blocks(w.output_channels):
        kernel = WideConv2DKernel(isa, rescale.form, lanes, joined)
        packed = layer.weights[first:end].reshape(-1, lanes, *layer.weights.shape[1:]).transpose(0, 2, 3, 4, 1)
        tap = w.input_channels * lanes
        calls.append(
            KernelCall(
                kernel,
                (
                    *window_arguments(w, SAMPLE_BYTES, tap, first),
                    *_common(layer.requantization, rescale, packed, first, end, (end - first) // lanes, w, tap),
                    w.kernel_height * w.kernel_width * tap,
                    w.input_channels,
                ),
            )
        )
    return Lowered(tuple(calls), macs=layer.macs)


def depthwise_conv_2d(isa: Isa, layer: DepthwiseConv2D) -> Lowered:
    """An int16x8 depthwise convolution of one image. Each window must cover a cell of the input."""
    w, multiplier = layer.window, layer.multiplier
    products = np.abs(layer.weights.astype(np.int64)).sum(axis=(0, 1)) * LARGEST_SAMPLE
    rescale = rescale_of(layer.requantization, layer.bias, products, layer.wide)
    shared = multiplier > 1
    parts = [(0, w.output_channels, lanes_of(multiplier))] if shared else list(_blocks(w.output_channels))
    calls = []
    for first, end, lanes in parts:
        kernel = WideDepthwiseKernel(isa, rescale.form, lanes, shared)
        packed = layer.weights[..., first:end].reshape(w.kernel_height, w.kernel_width, -1, lanes).transpose(2, 0, 1, 3)
        blocks = multiplier // lanes if shared else 1
        calls.append(
            KernelCall(
                kernel,
                (
                    *window_arguments(w, SAMPLE_BYTES, lanes, first, 0 if shared else first),
                    *_common(layer.requantization, rescale, packed, first, end, blocks, w, lanes),
                    (end - first) // (blocks * lanes),
                    w.kernel_height * w.kernel_width * lanes,
                ),
            )
        )
    return Lowered(tuple(calls), macs=layer.macs)


def fully_connected(isa: Isa, layer: FullyConnected) -> Lowered:
    """An int16x8 fully connected layer: a 1x1 convolution of `batches` pixels."""
    outputs, depth = layer.weights.shape
    window = Window(layer.batches, 1, depth, layer.batches, 1, outputs, 1, 1, 1, 1, 0, 0)
    weights = layer.weights.reshape(outputs, 1, 1, depth)
    return conv_2d(isa, Conv2D(window, weights, layer.bias, 0, layer.requantization, 16, layer.wide))


def _blocks(channels: int) -> Iterator[tuple[int, int, int]]:
    """Channels in blocks of four, then the rest in one: (first, end, block)."""
    whole = channels - channels % 4
    if whole:
        yield 0, whole, 4
    if whole < channels:
        yield whole, channels, channels - whole


def _common(
    r: Any, rescale: Rescale, packed: NDArray[np.int8], first: int, end: int, blocks: int, w: Window, tap: int
) -> tuple[Any, ...]:
    return (
        Constant(np.ascontiguousarray(packed).astype(np.int8).tobytes()),
        Constant(rescale.part(first, end)),
        blocks,
        w.kernel_width * tap,
        r.minimum,
        r.maximum,
    )
