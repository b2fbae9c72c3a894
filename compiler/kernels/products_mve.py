# SPDX-License-Identifier: Apache-2.0
"""Helium matrix products: one output channel, four pixels at a time, the pixels in the lanes of the requantisation.

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
    OutputRange,
    RequantizeMode,
    Rounding,
    Scale,
    dot,
    gather_lanes,
    lane_offsets,
    load_chunk,
    requantize,
    splat,
    store_strided,
)

PIXELS = 4
OUTPUT_PARAMETERS = ("output", "channels", "output_zero_point", "minimum", "maximum")
LONGEST_UNROLLED = 16
"""Chunks of a pixel beyond which they are walked in a loop."""


@dataclass(frozen=True)
class ProductShape:
    """Compile-time facts: vectors a pixel, bytes from pixel to pixel, whether these are whole words, whether the
    pixel count is no multiple of four (the last group then overlaps), and whether it is below four."""

    chunks: int
    stride: int
    ragged: bool
    few: bool
    mode: RequantizeMode

    @property
    def name(self) -> str:
        return f"{self.chunks}x{self.stride}_{self.mode.name}{'r' * self.ragged}{'f' * self.few}"


def pixel_words(pixels: int) -> tuple[int, int]:
    """The arguments `groups`, `pixels` of a product over `pixels` pixels."""
    return max(1, pixels // PIXELS), pixels


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
    offsets = lane_offsets(f, channels)
    words = shape.stride % 4 == 0
    step = PIXELS * shape.stride
    output_step = f.shl(channels, 2)

    def channel(_: Value, carried: list[Value]) -> list[Value]:
        weight, record, out = carried
        bias, scale = load_record(f, record, shape.mode)

        def group(_: Value, carried: list[Value]) -> list[Value]:
            x, to = carried
            sums = _sums(f, shape, x, weight, words)
            store_strided(
                f, finish(f, shape.mode, sums, bias, scale, limits), to, offsets, count if shape.few else None
            )
            return [f.offset(x, step), f.offset(to, output_step)]

        def part(index: Value, _: list[Value]) -> None:
            last = f.sub(count, PIXELS)
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


def _sums(f: KernelFunction, shape: ProductShape, x: Value, weight: Value, words: bool) -> list[Value]:
    def chunk(at: int, x: Value, weight: Value, sums: list[Value]) -> list[Value]:
        w = load_chunk(f, weight, CHUNK * at, words=True)
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
