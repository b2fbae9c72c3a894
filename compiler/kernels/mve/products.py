# SPDX-License-Identifier: Apache-2.0
"""Helium matrix products: one output channel, four or eight pixels at a time, in the lanes of the requantisation.

A pixel's operand is vectors of 16 bytes, the last of which ends with the pixel and overlaps the one before where the
depth is no multiple of 16 (zero weights there). Multiplier and shifts of the one channel stay in scalar registers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compiler.codegen.builder import Value
from compiler.kernels.kernel import KernelFunction
from compiler.kernels.mve.vector import (
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
from compiler.kernels.problems import Requantization

PIXELS = 4
OUTPUT_PARAMETERS = ("output", "channels", "output_zero_point", "minimum", "maximum")
LONGEST_UNROLLED = 16
"""Chunks of a pixel beyond which they are walked in a loop."""


@dataclass(frozen=True)
class ProductShape:
    """Compile-time facts: bytes from pixel to pixel (the depth), pixels computed together (4 or 8), whether these do
    not divide the pixel count (the last group then overlaps), and whether there are fewer than four.

    Pixels of less than 16 bytes are `short`: their last group is read from a copy."""

    stride: int
    group: int
    ragged: bool
    few: bool
    mode: RequantizeMode

    @classmethod
    def of(cls, stride: int, pixels: int, channels: int, mode: RequantizeMode, groups: tuple[int, ...]) -> ProductShape:
        """The cheapest of `groups` (4 among them) for a product over `pixels` pixels."""
        allowed = groups if pixels > 8 and 8 * channels < 1 << 16 else (4,)
        group = min(allowed, key=lambda g: _cost(-(-stride // CHUNK), pixels, g))
        return cls(stride, group, pixels % group != 0 or stride < CHUNK, pixels < PIXELS, mode)

    @property
    def short(self) -> bool:
        return self.stride < CHUNK

    @property
    def starts(self) -> list[int]:
        """Where the vectors of a pixel start."""
        whole = list(range(0, self.stride - CHUNK + 1, CHUNK))
        return whole if self.stride % CHUNK == 0 else [*whole, max(0, self.stride - CHUNK)]

    @property
    def name(self) -> str:
        flags = "r" * self.ragged + "f" * self.few
        return f"{self.stride}g{self.group}_{self.mode.name}{flags}"

    def counts(self, pixels: int) -> tuple[int, int]:
        """The arguments `groups`, `pixels`."""
        return max(1, (pixels - int(self.short)) // self.group), pixels


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
    tail: Value | None = None,
    parts: Value | int = 2,
) -> None:
    """outputs[pixel, channel] for all channels of the table; `pixels` and `output` point at pixel 0, `tail` at the
    copy of the last group where pixels are short. With one of the two `parts` there is no last group that overlaps."""
    channels = f.integer("channels")
    limits = output_range(f, shape.mode)
    lanes = [lane // 2 + lane % 2 * 4 for lane in range(8)]
    offsets = lane_offsets(f, channels) if shape.group == 4 else lane_values(f, V8I16, [(lanes, channels)])
    words = shape.stride % 4 == 0
    step, chunks = shape.group * shape.stride, len(shape.starts)
    output_step = f.mul(channels, shape.group)

    def channel(_: Value, carried: list[Value]) -> list[Value]:
        weight, record, out = carried
        bias, scale = load_record(f, record, shape.mode)
        taps: list[Value] = []
        if chunks <= _RESIDENT:
            taps = [load_chunk(f, weight, CHUNK * at, words=True) for at in range(chunks)]

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
            behind = f.compare("!=", index, 0)
            final = f.offset(pixels, f.mul(last, shape.stride)) if tail is None else tail
            to = f.offset(out, f.select(behind, f.mul(last, channels), 0))
            f.loop(f.select(behind, 1, groups), group, [f.builder.select(behind, final, pixels), to])

        if shape.few:
            group(f.const(0), [pixels, out])
        elif shape.ragged:
            f.loop(parts, part)
        else:
            f.loop(groups, group, [pixels, out])
        return [
            f.offset(weight, CHUNK * chunks),
            f.offset(record, 4 * record_words(shape.mode)),
            f.offset(out, 1),
        ]

    f.loop(channels, channel, [weights, records, output])


def _sums(
    f: KernelFunction, shape: ProductShape, x: Value, weight: Value, taps: list[Value], words: bool
) -> list[Value]:
    def chunk(x: Value, start: int, w: Value, sums: list[Value]) -> list[Value]:
        return [dot(f, sums[p], w, load_chunk(f, x, start + p * shape.stride, words=words)) for p in range(PIXELS)]

    def tap(weight: Value, at: int) -> Value:
        return load_chunk(f, weight, CHUNK * at, words=True)

    sums: list[Value] = [f.const(0)] * PIXELS
    if len(shape.starts) <= LONGEST_UNROLLED:
        for at, start in enumerate(shape.starts):
            sums = chunk(x, start, taps[at] if taps else tap(weight, at), sums)
        return sums
    whole = shape.stride // CHUNK
    unroll = next(u for u in (4, 3, 2, 1) if whole % u == 0)

    def body(_: Value, carried: list[Value]) -> list[Value]:
        x, weight, *sums = carried
        for at in range(unroll):
            sums = chunk(x, CHUNK * at, tap(weight, at), sums)
        return [f.offset(x, CHUNK * unroll), f.offset(weight, CHUNK * unroll), *sums]

    x, weight, *sums = f.loop(whole // unroll, body, [x, weight, *sums])
    if shape.stride % CHUNK:
        sums = chunk(x, shape.stride % CHUNK - CHUNK, tap(weight, 0), sums)
    return sums
