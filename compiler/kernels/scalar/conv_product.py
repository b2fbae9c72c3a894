# SPDX-License-Identifier: Apache-2.0
"""Convolutions and fully connected layers as the row kernels see them, and what their tables have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from compiler.kernels import packed_records
from compiler.kernels.kernel import INPUT, OUTPUT, SCRATCH, Argument, Constant, Lowered, Place, Role
from compiler.kernels.packing import Int64Array, accumulator_bounds
from compiler.kernels.problems import Conv2D, FullyConnected, Requantization, Window
from compiler.kernels.scalar.clamps import TABLE_BYTES, within_reach
from compiler.kernels.scalar.conv_rows import Copy, RowKernel
from compiler.kernels.scalar.core import ScalarCore
from compiler.kernels.scalar.requantize import WORDS, ChannelTable, channel_table


@dataclass(frozen=True)
class BlockShape:
    """A block that a core's registers hold, with measured instructions: one step along the window for the whole
    block, one inner iteration's own, one output's requantisation, one block's own. `depth`: pairs of taps a step."""

    channels: int
    pixels: int
    step: float
    iteration: float
    output: float
    block: float
    unrolls: tuple[int, ...] = ()
    depth: int = 1


def pair_shape(channels: int, pixels: int, depth: int, output: float, fixed: float) -> BlockShape:
    """A block of pairs whose sums stay in registers: loads of offsets, weights and inputs, products and sums."""
    loads = depth * (2 + channels + pixels)
    step = loads + channels * pixels * (2 * depth + 2)
    return BlockShape(channels, pixels, step, fixed, output, 30, depth=depth)


@dataclass(frozen=True)
class Blocking:
    """Shapes by preference, with one tap and with pairs of taps a step. `segment`: instructions a segment and
    block; `copy`: a byte of a gathered window; `reach`: the largest constant offset of a word load."""

    shapes: tuple[BlockShape, ...]
    pairs: tuple[BlockShape, ...] = ()
    reach: int = 0
    segment: float = 14
    copy: float = 2.5


@dataclass(frozen=True)
class Candidate:
    """A way to lower a layer, its estimated instructions, and its bytes of weights and scratch. `modest`: it takes
    little scratch. `build` is told whether to clamp by a table."""

    cost: float
    build: Callable[[bool], Lowered]
    flash: int
    scratch: int = 0
    modest: bool = True
    lookup: bool = False

    def lowered(self) -> Lowered:
        return replace(self.build(self.lookup), instructions=round(self.cost))

    def with_table(self, spared: int) -> Candidate:
        """This way with a table, which spares so many instructions."""
        return replace(self, cost=self.cost - spared, flash=self.flash + TABLE_BYTES, lookup=True)

    def beats(self, other: Candidate) -> bool:
        """It is no worse in anything, and better in something."""
        mine, others = (self.cost, self.flash, self.scratch), (other.cost, other.flash, other.scratch)
        return mine != others and all(a <= b for a, b in zip(mine, others, strict=True))


@dataclass(frozen=True, eq=False)
class Product:
    """A layer as matrix rows: weights int64 [channels, segments, segment bytes], window, zero points."""

    window: Window
    weights: Int64Array
    bias: Int64Array
    input_zero_point: int
    filter_zero_point: int
    requantization: Requantization
    macs: int

    @property
    def padded(self) -> bool:
        w = self.window
        return any((w.pad_top, w.pad_left, w.pad_bottom, w.pad_right))

    def table(self, core: ScalarCore, input_bias: int, lookup: bool, packs: bool = False) -> ChannelTable:
        """The channel table for inputs that are read as value + `input_bias`; `lookup` and `packs` as for
        `channel_table`."""
        bias = self.bias - (self.input_zero_point + input_bias) * self._centred.sum(axis=1)
        return channel_table(core, self.requantization, bias, self._bounds, lookup, packs)

    def shortened(self, input_bias: int) -> Product | None:
        """The same with channels that can be packed, for inputs that are read as value + `input_bias`."""
        folded = self.input_zero_point + input_bias
        short = packed_records.shortened(self._centred, self.bias, self.input_zero_point, self.requantization, folded)
        if short is None:
            return None
        weights = np.where(short.constant[:, None, None], self.filter_zero_point, self.weights)
        return replace(self, weights=weights, bias=short.bias, requantization=short.requantization)

    def spared(self, core: ScalarCore) -> int:
        """Instructions that clamping by a table spares; 0 where that cannot be."""
        if not within_reach(core, self.requantization, self._bounds):
            return 0
        return core.lookup_gain * self.window.output_height * self.window.output_width * len(self.weights)

    @property
    def _centred(self) -> Int64Array:
        return (self.weights - self.filter_zero_point).reshape(len(self.weights), -1)

    @property
    def _bounds(self) -> tuple[Int64Array, Int64Array]:
        return accumulator_bounds(self._centred, self.bias, self.input_zero_point)


def conv_product(layer: Conv2D) -> Product:
    w = layer.window
    channels, taps = w.output_channels, w.kernel_height * w.kernel_width
    split = w.dilation_width > 1 and w.kernel_width > 1
    segments = taps if split else w.kernel_height
    weights = layer.weights.astype(np.int64).reshape(channels, segments, -1)
    return Product(w, weights, layer.bias, layer.input_zero_point, 0, layer.requantization, layer.macs)


def fully_connected_product(layer: FullyConnected) -> Product:
    """The batches are the pixels of a column."""
    outputs, depth = layer.weights.shape
    return Product(
        Window(layer.batches, 1, depth, layer.batches, 1, outputs, 1, 1, 1, 1, 0, 0),
        layer.weights.astype(np.int64).reshape(outputs, 1, depth),
        layer.bias,
        layer.input_zero_point,
        layer.filter_zero_point,
        layer.requantization,
        layer.macs,
    )


def block_starts(channels: int, block: int) -> list[int]:
    """The first channels of blocks; the last block ends with the last channel, and may overlap the one before."""
    return [min(start, channels - block) for start in range(0, channels, block)]


def channel_entries(table: ChannelTable, starts: list[int], block: int) -> dict[str, Argument]:
    """The table entries of requantisation: records of blocks (the offset of its channels, then WORDS a channel, or its
    bias alone), what channels share, and the clamp."""
    words = table.words[:, :1] if table.shared else table.words
    records = np.array([[start, *words[start : start + block].ravel()] for start in starts])
    common = [int(word) for word in table.words[0]] if table.shared else [0] * WORDS
    return {
        "blocks": Constant((records & 0xFFFFFFFF).astype("<u4").tobytes()),
        "block_count": len(starts),
        "channel_bias": 0,
        "channel_multiplier": common[1],
        "channel_rounding": common[2],
        "channel_shift": common[3],
        **table.entries,
    }


def geometry(w: Window, kernel: RowKernel, fill: int, segments: int, before_ring: int) -> dict[str, Argument]:
    """Table entries of FIELDS that follow from the window. `fill` is a padding word, `before_ring` the scratch bytes
    before the ring."""
    unit = 2 if kernel.copy is Copy.PAIRS else 1
    channels = unit * w.input_channels
    lead = -w.pad_left * channels % 4 if kernel.copy is Copy.WORDS else 0
    span = (w.kernel_height - 1) * w.dilation_height + 1
    input_row = w.input_width * w.input_channels
    ring_row = -(-(lead + (w.pad_left + w.input_width + w.pad_right) * channels) // 4) * 4
    pixel_input = w.stride_width * channels
    groups = -(-w.output_width // kernel.pixels)
    first = w.output_width - (groups - 1) * kernel.pixels
    return {
        "input": INPUT,
        "output": OUTPUT,
        "scratch": 0 if kernel.single else SCRATCH,
        "output_height": w.output_height,
        "group_count": groups,
        "group_input": kernel.pixels * pixel_input,
        "group_output": kernel.pixels * w.output_channels,
        "first_input": first * pixel_input,
        "first_output": first * w.output_channels,
        "output_row": w.output_width * w.output_channels,
        "pixel_input": pixel_input,
        "pixel_output": w.output_channels,
        "segment_count": segments,
        "segment_rows": w.kernel_height,
        "segment_columns": segments // w.kernel_height,
        "segment_step": w.dilation_width * channels,
        "row_step": w.dilation_height * (ring_row if kernel.copy is not Copy.NONE else input_row),
        "input_step": w.stride_height * input_row,
        "ring": Place(Role.SCRATCH, offset=before_ring) if kernel.copy is not Copy.NONE else 0,
        "ring_row": ring_row,
        "ring_bytes": span * ring_row,
        "ring_lead": lead,
        "ring_interior": lead + w.pad_left * channels - 2 * kernel.edges[0],
        "input_row": input_row,
        "input_units": (input_row - kernel.edges[0]) // {Copy.WORDS: 4, Copy.PAIRS: 2}.get(kernel.copy, 1),
        "input_height": w.input_height,
        "pad_top": w.pad_top,
        "row_stride": w.stride_height,
        "row_span": span,
        "fill": fill,
    }
