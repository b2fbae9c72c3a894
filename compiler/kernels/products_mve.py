# SPDX-License-Identifier: Apache-2.0
"""Helium matrix products: one output channel, four or eight pixels at a time, in the lanes of the requantisation.

A pixel's operand is `chunks` vectors of 16 bytes that lie together; what the last one holds beyond the depth meets
zero weights. Multiplier and shifts of the one channel stay in scalar registers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compiler.codegen.builder import Value
from compiler.kernels.kernel import KernelFunction
from compiler.kernels.problems import Requantization
from compiler.kernels.vector_mve import (
    CHUNK,
    V4I32,
    V8I16,
    OutputRange,
    RequantizeMode,
    Rounding,
    Scale,
    dot,
    gather_lanes,
    lane_offsets,
    lane_values,
    load_chunk,
    requantize,
    requantize_pair,
    scatter_bytes,
    splat,
    store_strided,
)

PIXELS = 4
OUTPUT_PARAMETERS = ("output", "channels", "output_zero_point", "minimum", "maximum")
LONGEST_UNROLLED = 16
"""Chunks of a pixel beyond which they are walked in a loop."""


@dataclass(frozen=True)
class ProductShape:
    """Compile-time facts: vectors a pixel, bytes from pixel to pixel, pixels computed together (4 or 8), whether these
    do not divide the pixel count (the last group then overlaps), and whether there are fewer than four."""

    chunks: int
    stride: int
    group: int
    ragged: bool
    few: bool
    mode: RequantizeMode

    @classmethod
    def of(
        cls, chunks: int, stride: int, pixels: int, channels: int, mode: RequantizeMode, groups: tuple[int, ...]
    ) -> ProductShape:
        """The cheapest of `groups` (4 among them) for a product over `pixels` pixels."""
        allowed = groups if pixels >= 8 and 8 * channels < 1 << 16 else (4,)
        group = min(allowed, key=lambda g: _cost(chunks, pixels, g))
        return cls(chunks, stride, group, pixels % group != 0, pixels < PIXELS, mode)

    @property
    def name(self) -> str:
        flags = "r" * self.ragged + "f" * self.few
        return f"{self.chunks}x{self.stride}g{self.group}_{self.mode.name}{flags}"

    def counts(self, pixels: int) -> tuple[int, int]:
        """The arguments `groups`, `pixels`."""
        return max(1, pixels // self.group), pixels


_RESIDENT = 4
"""Weight vectors that stay in registers from group to group."""


def _cost(chunks: int, pixels: int, group: int) -> int:
    """Instructions for one channel, counted from the loops."""
    loads = 0 if chunks <= _RESIDENT else chunks * group // 4
    return -(-pixels // group) * (2 * chunks * group + loads + {4: 12, 8: 19}[group])


def products_cost(chunks: int, pixels: int, channels: int, groups: tuple[int, ...]) -> int:
    """Instructions of a product, near enough to choose a family."""
    return channels * (min(_cost(chunks, pixels, group) for group in groups) + 15)


def channel_records(bias: NDArray[np.int64], r: Requantization, mode: RequantizeMode) -> NDArray[np.int32]:
    """One row a channel: bias, multiplier, right shift (<= 0), and the left shift and rounding flag where used."""
    columns = [bias, r.multipliers, np.minimum(r.shifts, 0)]
    if mode.left:
        columns.append(np.maximum(r.shifts, 0))
    if mode.rounding is Rounding.MIXED:
        columns.append((r.shifts < 0).astype(np.int64))
    return np.stack([np.broadcast_to(c, bias.shape) for c in columns], axis=1).astype(np.int32)


def record_words(mode: RequantizeMode) -> int:
    return 3 + int(mode.left) + int(mode.rounding is Rounding.MIXED)


def load_record(f: KernelFunction, record: Value, mode: RequantizeMode) -> tuple[Value, Scale]:
    """A channel's bias and scale."""
    words = [f.load_i32(record, 4 * i) for i in range(record_words(mode))]
    left = words[3] if mode.left else None
    flag = words[-1] if mode.rounding is Rounding.MIXED else None
    return words[0], Scale(words[1], words[2], left, flag)


def output_range(f: KernelFunction, mode: RequantizeMode) -> OutputRange:
    zero_point = f.integer("output_zero_point")
    if not mode.clamp:
        return OutputRange(zero_point, zero_point, zero_point)
    return OutputRange(zero_point, f.integer("minimum"), f.integer("maximum"))


def finish(
    f: KernelFunction, mode: RequantizeMode, sums: list[Value], bias: Value, scale: Scale, limits: OutputRange
) -> Value:
    """Four sums of one channel to four outputs in lanes."""
    values = gather_lanes(f, sums)
    return requantize(f, mode, f.add(values, splat(f, bias, values.type)), scale, limits)


def emit_products(
    f: KernelFunction,
    shape: ProductShape,
    pixels: Value,
    weights: Value,
    records: Value,
    output: Value,
    groups: Value,
    count: Value,
) -> None:
    """outputs[pixel, channel] for all channels of the table; `pixels` and `output` point at pixel 0."""
    channels = f.integer("channels")
    limits = output_range(f, shape.mode)
    lanes = [lane // 2 + lane % 2 * 4 for lane in range(8)]
    offsets = lane_offsets(f, channels) if shape.group == 4 else lane_values(f, V8I16, [(lanes, channels)])
    words = shape.stride % 4 == 0
    step = shape.group * shape.stride
    output_step = f.mul(channels, shape.group)

    def channel(_: Value, carried: list[Value]) -> list[Value]:
        weight, record, out = carried
        bias, scale = load_record(f, record, shape.mode)
        taps: list[Value] = []
        if shape.chunks <= _RESIDENT:
            taps = [load_chunk(f, weight, CHUNK * at, words=True) for at in range(shape.chunks)]

        def group(_: Value, carried: list[Value]) -> list[Value]:
            x, to = carried
            quads = []
            for first in range(0, shape.group, PIXELS):
                sums = _sums(f, shape, f.offset(x, first * shape.stride), weight, taps, words)
                quads.append(f.add(gather_lanes(f, sums), splat(f, bias, V4I32)))
                if shape.group == 8:
                    # Else the scheduler keeps all eight sums, for which there are too few (even) registers.
                    f.split()
            if shape.group == PIXELS:
                values = requantize(f, shape.mode, quads[0], scale, limits)
                store_strided(f, values, to, offsets, count if shape.few else None)
            else:
                values = requantize_pair(f, shape.mode, quads[0], quads[1], (scale, scale), limits)
                scatter_bytes(f, values, to, offsets)
            return [f.offset(x, step), f.offset(to, output_step)]

        def part(index: Value, _: list[Value]) -> None:
            last = f.sub(count, shape.group)
            tail = f.compare("!=", index, 0)
            x = f.offset(pixels, f.select(tail, f.mul(last, shape.stride), 0))
            to = f.offset(out, f.select(tail, f.mul(last, channels), 0))
            f.loop(f.select(tail, 1, groups), group, [x, to])

        if shape.few:
            group(f.const(0), [pixels, out])
        elif shape.ragged:
            f.loop(2, part)
        else:
            f.loop(groups, group, [pixels, out])
        return [
            f.offset(weight, CHUNK * shape.chunks),
            f.offset(record, 4 * record_words(shape.mode)),
            f.offset(out, 1),
        ]

    f.loop(channels, channel, [weights, records, output])


def _sums(
    f: KernelFunction, shape: ProductShape, x: Value, weight: Value, taps: list[Value], words: bool
) -> list[Value]:
    def chunk(at: int, x: Value, weight: Value, sums: list[Value]) -> list[Value]:
        w = taps[at] if taps else load_chunk(f, weight, CHUNK * at, words=True)
        return [dot(f, sums[p], w, load_chunk(f, x, CHUNK * at + p * shape.stride, words=words)) for p in range(PIXELS)]

    sums: list[Value] = [f.const(0)] * PIXELS
    if shape.chunks <= LONGEST_UNROLLED:
        for at in range(shape.chunks):
            sums = chunk(at, x, weight, sums)
        return sums
    unroll = next(u for u in (4, 3, 2, 1) if shape.chunks % u == 0)

    def body(_: Value, carried: list[Value]) -> list[Value]:
        x, weight, *sums = carried
        for at in range(unroll):
            sums = chunk(at, x, weight, sums)
        return [f.offset(x, CHUNK * unroll), f.offset(weight, CHUNK * unroll), *sums]

    return f.loop(shape.chunks // unroll, body, [x, weight, *sums])[2:]
