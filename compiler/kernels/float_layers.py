# SPDX-License-Identifier: Apache-2.0
"""Lowering of float layers to the float window kernel: runs of equally cut windows, packed weights, blocking."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from compiler.errors import UserError
from compiler.kernels.float_window import FLOAT_BYTES, LARGEST, FloatWindow
from compiler.kernels.kernel import INPUT, OUTPUT, Constant, KernelCall, Lowered
from compiler.kernels.problems import FloatLayer, Window

FloatArray = NDArray[np.float32]


def conv_2d(layer: FloatLayer) -> Lowered:
    """A float convolution: weights [output_channels, kernel_height, kernel_width, input_channels / groups]."""
    w = layer.window
    if w.is_pointwise:
        pixels = w.output_height * w.output_width
        w = replace(w, input_height=1, output_height=1, input_width=pixels, output_width=pixels)
    groups = w.input_channels // layer.weights.shape[3]
    shape = (groups, w.output_channels // groups, w.kernel_height, w.kernel_width, w.input_channels // groups)
    return _lower(replace(layer, window=w), layer.weights.reshape(shape))


def depthwise_conv_2d(layer: FloatLayer) -> Lowered:
    """A float depthwise convolution: weights [kernel_height, kernel_width, output_channels]."""
    w = layer.window
    by_channel = layer.weights.transpose(2, 0, 1)[..., None]
    if w.output_channels == w.input_channels > 1:
        return _lower(layer, by_channel[None], lanes=True)
    # With a multiplier each input channel is a group: a convolution of one channel.
    return _lower(layer, by_channel.reshape(w.input_channels, -1, w.kernel_height, w.kernel_width, 1))


def fully_connected(layer: FloatLayer) -> Lowered:
    """A float fully connected layer: weights [outputs, depth]; the window's output pixels are the batches."""
    outputs, depth = layer.weights.shape
    batches = layer.window.output_height * layer.window.output_width
    flat = Window(1, batches, depth, 1, batches, outputs, 1, 1, 1, 1, 0, 0)
    return _lower(replace(layer, window=flat), layer.weights.reshape(1, outputs, 1, 1, depth))


@dataclass(frozen=True)
class Run:
    """`repeat` windows from output `first` on, `stride` cells apart, that have the taps [tap, tap + taps) inside the
    input; `cell` is the input cell under the first tap of the first of them."""

    first: int
    repeat: int
    tap: int
    taps: int
    cell: int
    stride: int

    def part(self, skip: int, repeat: int) -> Run:
        """`repeat` windows from the one number `skip` on."""
        return replace(self, first=self.first + skip, cell=self.cell + skip * self.stride, repeat=repeat)


def runs(outputs: int, cells: int, kernel: int, stride: int, padding: int, dilation: int) -> tuple[Run, ...]:
    """The runs of one axis, in order. Raises UserError where a window sees nothing but padding."""
    found: list[Run] = []
    for output in range(outputs):
        start = output * stride - padding
        tap = max(0, ceil(-start / dilation))
        end = min(kernel, ceil((cells - start) / dilation))
        if end <= tap:
            raise UserError(
                "a float layer has a window that sees nothing but padding",
                got=f"{cells} cells, kernel {kernel}, stride {stride}, dilation {dilation}, padding {padding}",
                allowed="windows with at least one tap inside the input",
            )
        one = Run(output, 1, tap, end - tap, start + tap * dilation, stride)
        if found and found[-1].part(found[-1].repeat, 1) == one:
            found[-1] = replace(found[-1], repeat=found[-1].repeat + 1)
        else:
            found.append(one)
    return tuple(found)


def _lower(layer: FloatLayer, weights: FloatArray, lanes: bool = False) -> Lowered:
    """`weights` [groups, channels of a group, kernel_height, kernel_width, input channels of a group]; with `lanes`
    the channels of the one group read an input channel each."""
    w = layer.window
    columns = runs(w.output_width, w.input_width, w.kernel_width, w.stride_width, w.pad_left, w.dilation_width)
    pixels = max(p for p in ((1, 2) if lanes else (1, 2, 4)) if p == 1 or any(run.repeat >= p for run in columns))
    wide = [run.part(0, run.repeat - run.repeat % pixels) for run in columns]
    narrow = [run.part(run.repeat - run.repeat % pixels, run.repeat % pixels) for run in columns]
    low, high = max(layer.minimum, -LARGEST), min(layer.maximum, LARGEST)
    calls: list[KernelCall] = []
    for first, end, block in _channel_blocks(weights.shape[1], pixels, lanes):
        for size, windows in ((pixels, wide), (1, narrow)):
            if any(run.repeat for run in windows):
                kernel = FloatWindow(block, size, lanes, low, high)
                calls.append(_call(layer, kernel, weights[:, first:end], first, [r for r in windows if r.repeat]))
    return Lowered(tuple(calls), macs=layer.macs)


def _channel_blocks(channels: int, pixels: int, lanes: bool) -> tuple[tuple[int, int, int], ...]:
    """A group's channels as (first, end, channels of a block): blocks of one size, then the rest as one block.

    Sixteen sums with four weights and four inputs fit 32 float registers; where no neighbouring pixels share the
    weights, eight channels share each input.
    """
    block = min(channels, 4 if lanes or pixels == 4 else 8)
    whole = channels - channels % block
    parts = ((0, whole, block), (whole, channels, channels - whole))
    return tuple(part for part in parts if part[0] < part[1])


def _call(layer: FloatLayer, kernel: FloatWindow, weights: FloatArray, first: int, columns: list[Run]) -> KernelCall:
    """The call for the channels [first, first + n) of each group, weights [groups, n, height, width, elements]."""
    w = layer.window
    groups, channels, height, width, elements = weights.shape
    block, lanes = kernel.channels, kernel.lanes
    blocks = channels // block
    packed = weights.reshape(groups, blocks, block, height, width, elements).transpose(0, 1, 3, 4, 5, 2)
    bias = layer.bias.reshape(groups, -1)[:, first : first + channels]
    group_input, group_output = elements * FLOAT_BYTES, w.output_channels // groups * FLOAT_BYTES
    if lanes:
        groups, blocks = blocks, 1
        group_input = group_output = block * FLOAT_BYTES

    cell, pixel, tap = (n * FLOAT_BYTES for n in (w.input_channels, w.output_channels, elements * block))
    line = cell * w.input_width
    rows = runs(w.output_height, w.input_height, w.kernel_height, w.stride_height, w.pad_top, w.dilation_height)
    row_table = [
        (r.repeat, r.taps, 1, r.cell * line, r.tap * width * tap, r.first * w.output_width * pixel) for r in rows
    ]
    # Neighbouring taps whose elements are contiguous in the input are one tap.
    joined = not lanes and elements == w.input_channels and w.dilation_width == 1
    column_table = [
        (r.repeat // kernel.pixels, *((1, r.taps * elements) if joined else (r.taps, elements)),
         r.cell * cell, r.tap * tap, r.first * pixel)
        for r in columns
    ]  # fmt: skip
    offset = first * FLOAT_BYTES
    return KernelCall(
        kernel,
        (
            replace(INPUT, offset=offset if lanes else 0), _floats(packed), _floats(bias),
            replace(OUTPUT, offset=offset),
            _table(row_table), len(row_table), w.stride_height * line, w.output_width * pixel,
            _table(column_table), len(column_table), w.stride_width * cell, pixel,
            groups, group_input, group_output, blocks, height * width * tap,
            w.dilation_height * line, width * tap, w.dilation_width * cell,
        ),
    )  # fmt: skip


def _floats(values: FloatArray) -> Constant:
    return Constant(np.ascontiguousarray(values, "<f4").tobytes())


def _table(rows: Iterable[tuple[int, ...]]) -> Constant:
    return Constant(np.array(list(rows), "<i4").tobytes())
