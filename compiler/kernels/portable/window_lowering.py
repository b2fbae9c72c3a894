# SPDX-License-Identifier: Apache-2.0
"""Lowering of sliding windows to the window walk: runs of equally cut windows, packed weights, blocking."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.errors import UserError
from compiler.kernels.kernel import OUTPUT, Argument, Constant, KernelCall, Place
from compiler.kernels.portable.window_walk import FLOAT_BYTES, WindowKernel
from compiler.kernels.problems import Window

Array = NDArray[Any]


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


@dataclass(frozen=True)
class Blocking:
    """The most sums a kernel holds: `channels` of `pixels` neighbours, or `channels_alone` of a pixel without any. The
    inner loop takes `unroll` elements a step where their number allows it."""

    channels: int
    pixels: int
    channels_alone: int
    unroll: int


@dataclass(frozen=True)
class WindowLayer:
    """A layer for the window walk.

    `weights` [groups, channels of a group, kernel_height, kernel_width, input channels of a group]; with `lanes` the
    channels of the one group read an input channel each. `kernel(channels, pixels, unroll)` makes the kernel of a
    blocking, `record(channels)` what it needs for a block of output channels (their numbers), `extra` its further
    arguments.
    """

    window: Window
    weights: Array
    lanes: bool
    source: Place
    kernel: Callable[[int, int, int], WindowKernel]
    record: Callable[[NDArray[np.int64]], bytes]
    blocking: Blocking
    extra: tuple[Argument, ...] = ()


def conv_weights(w: Window, weights: Array) -> Array:
    """Convolution weights [output_channels, kernel_height, kernel_width, input_channels / groups], by group."""
    groups = w.input_channels // weights.shape[3]
    return weights.reshape(groups, w.output_channels // groups, *weights.shape[1:])


def depthwise_weights(w: Window, weights: Array) -> tuple[Array, bool]:
    """Depthwise weights [kernel_height, kernel_width, output_channels], by group, and whether their channels are lanes.
    With a multiplier each input channel is a group: a convolution of one channel."""
    by_channel = weights.transpose(2, 0, 1)[..., None]
    if w.output_channels == w.input_channels > 1:
        return by_channel[None], True
    return by_channel.reshape(w.input_channels, -1, w.kernel_height, w.kernel_width, 1), False


def flat(w: Window) -> Window:
    """A pointwise window as one row of pixels."""
    if not w.is_pointwise:
        return w
    return rows_of(w.output_height * w.output_width, w.input_channels, w.output_channels)


def rows_of(pixels: int, depth: int, outputs: int) -> Window:
    """The window of a matrix product over rows."""
    return Window(1, pixels, depth, 1, pixels, outputs, 1, 1, 1, 1, 0, 0)


def window_calls(layer: WindowLayer) -> tuple[KernelCall, ...]:
    """The calls of a layer: blocks of pixels and single ones, whole blocks of channels and the rest."""
    w = layer.window
    columns = runs(w.output_width, w.input_width, w.kernel_width, w.stride_width, w.pad_left, w.dilation_width)
    most = min(layer.blocking.pixels, 2 if layer.lanes else 4)
    pixels = max(p for p in (1, 2, 4) if p == 1 or (p <= most and any(run.repeat >= p for run in columns)))
    wide = [run.part(0, run.repeat - run.repeat % pixels) for run in columns]
    narrow = [run.part(run.repeat - run.repeat % pixels, run.repeat % pixels) for run in columns]
    unroll = 1 if layer.lanes or layer.weights.shape[-1] % layer.blocking.unroll else layer.blocking.unroll
    calls: list[KernelCall] = []
    for first, end, block in _channel_blocks(layer, pixels):
        for size, windows in ((pixels, wide), (1, narrow)):
            chosen = [run for run in windows if run.repeat]
            if chosen:
                calls.append(_call(layer, layer.kernel(block, size, unroll), first, end, chosen))
    return tuple(calls)


def _channel_blocks(layer: WindowLayer, pixels: int) -> tuple[tuple[int, int, int], ...]:
    """A group's channels as (first, end, channels of a block): blocks of one size, then the rest as one block."""
    channels = layer.weights.shape[1]
    alone = pixels == 1 and not layer.lanes
    block = min(channels, layer.blocking.channels_alone if alone else layer.blocking.channels)
    whole = channels - channels % block
    parts = ((0, whole, block), (whole, channels, channels - whole))
    return tuple(part for part in parts if part[0] < part[1])


def _call(layer: WindowLayer, kernel: WindowKernel, first: int, end: int, columns: list[Run]) -> KernelCall:
    """The call for the channels [first, end) of each group."""
    w, weights, lanes, block = layer.window, layer.weights[:, first:end], layer.lanes, kernel.channels
    groups, channels, height, width, elements = weights.shape
    blocks, group_channels = channels // block, w.output_channels // groups
    packed = weights.reshape(groups, blocks, block, height, width, elements).transpose(0, 1, 3, 4, 5, 2)
    numbers = (np.arange(groups)[:, None] * group_channels + np.arange(first, end)).reshape(-1, block)
    records = b"".join(layer.record(n) for n in numbers)
    group_input, group_output = elements * kernel.input_bytes, group_channels * FLOAT_BYTES
    source = layer.source
    if lanes:
        source = replace(source, offset=source.offset + first * kernel.input_bytes)
        groups, blocks = blocks, 1
        group_input, group_output = block * kernel.input_bytes, block * FLOAT_BYTES

    cell, pixel = w.input_channels * kernel.input_bytes, w.output_channels * FLOAT_BYTES
    tap, line = elements * block * kernel.weight_bytes, cell * w.input_width
    rows = runs(w.output_height, w.input_height, w.kernel_height, w.stride_height, w.pad_top, w.dilation_height)
    row_table = [
        (r.repeat, r.taps, 1, r.cell * line, r.tap * width * tap, r.first * w.output_width * pixel) for r in rows
    ]
    steps = elements // kernel.unroll
    # Neighbouring taps whose elements are contiguous in the input are one tap.
    joined = not lanes and elements == w.input_channels and w.dilation_width == 1
    column_table = [
        (r.repeat // kernel.pixels, *((1, r.taps * steps) if joined else (r.taps, steps)),
         r.cell * cell, r.tap * tap, r.first * pixel)
        for r in columns
    ]  # fmt: skip
    return KernelCall(
        kernel,
        (
            source, _constant(packed), Constant(records), replace(OUTPUT, offset=first * FLOAT_BYTES),
            _table(row_table), len(row_table), w.stride_height * line, w.output_width * pixel,
            _table(column_table), len(column_table), w.stride_width * cell, pixel,
            groups, group_input, group_output, blocks, height * width * tap,
            w.dilation_height * line, width * tap, w.dilation_width * cell, *layer.extra,
        ),
    )  # fmt: skip


def _constant(values: Array) -> Constant:
    return Constant(np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes())


def _table(rows: Iterable[tuple[int, ...]]) -> Constant:
    return Constant(np.array(list(rows), "<i4").tobytes(), steers=True)
