# SPDX-License-Identifier: Apache-2.0
"""Convolution on scalar cores with two taps a multiplication.

For pairs of inputs a, b as the word a + b * 2**16 and weights w, v as v + w * 2**16, the upper half of the product's
low 32 bits is a*w + b*v. Two products add up to four taps, exact as (sum + 2**15) >> 16 while the absolute weights of
the four sum up to 255 at most. Which two pairs form such a window is chosen when weights are packed; pairs whose
weights are zero in a whole block are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from compiler.codegen.builder import I16, I32, Value
from compiler.kernels.conv_rows_scalar import FIELDS, RowKernel
from compiler.kernels.kernel import KernelFunction
from compiler.kernels.packing import Int64Array

LIMIT = 255
"""The greatest sum of absolute weights in a window: |a*w + ...| <= 128 * LIMIT < 2**15, likewise the lower halves."""


@dataclass(frozen=True)
class ConvPairs(RowKernel):
    """A block's stream has for each segment its length in bytes, then windows: the offsets of their two
    pairs of inputs, and for each pair and each channel the weights. Flash holds them as halfwords; each output row
    expands a block's stream into scratch, as words. `pitch`: bytes between the windows of neighbouring pixels.
    """

    pitch: int

    parameters: ClassVar[tuple[str, ...]] = (*FIELDS, "expanded")

    @property
    def name(self) -> str:
        block = f"{self.channels}x{self.pixels}p{self.pitch}"
        flags = f"{'s' if self.single else ''}{'c' if self.shared else ''}"
        return "_".join(filter(None, ["conv_pairs", self.core.tag, block, self.form.tag, flags]))

    def row(self, f: KernelFunction, first: Value, output: Value) -> None:
        def block(_: Value, carried: list[Value]) -> list[Value]:
            compact, record = carried
            compact = self._expanded(f, compact)

            def group(at: Value, to: Value, _: list[Value]) -> list[Value]:
                self._block(f, first, at, f.offset(output, to), record)
                return []

            self.over_groups(f, group)
            return [compact, f.offset(record, self.block_bytes)]

        f.loop(f.integer("block_count"), block, [f.pointer("weights"), f.pointer("blocks")])

    def _expanded(self, f: KernelFunction, source: Value) -> Value:
        """Expands a block's stream; returns the end of its compact form."""

        def segment(_: Value, carried: list[Value]) -> list[Value]:
            source, target = carried
            size = f.zext(f.load(I16, source))
            f.store(size, target)
            start = f.offset(target, 4)

            def window(target: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
                (source,) = carried
                for i in range(2):
                    f.store(f.zext(f.load(I16, source, 2 * i)), target, 4 * i)
                for i in range(2 * self.channels):
                    f.split()
                    word = f.add(f.load_s8(source, 4 + 2 * i), f.shl(f.load_s8(source, 5 + 2 * i), 16))
                    f.store(word, target, 8 + 4 * i)
                return f.offset(target, 8 + 8 * self.channels), [f.offset(source, 4 + 4 * self.channels)]

            target, (source,) = f.loop_until(f.offset(start, size), start, window, [f.offset(source, 2)])
            return [source, target]

        count = f.const(1) if self.single else f.integer("segment_count")
        return f.loop(count, segment, [source, f.pointer("expanded")])[0]

    def _block(self, f: KernelFunction, first: Value, at: Value, output: Value, record: Value) -> None:
        starts = self.biases(f, record)

        def segment(base: Value, state: list[Value]) -> list[Value]:
            weights, *sums = state
            inputs = f.offset(base, at)
            start = f.offset(weights, 4)
            after, sums = f.loop_until(
                f.offset(start, f.load(I32, weights)), start, lambda w, sums: self._window(f, inputs, w, sums), sums
            )
            return [after, *sums]

        state = [f.pointer("expanded"), *(start for start in starts for _ in range(self.pixels))]
        sums = self.over_segments(f, first, segment, state)[1:]
        self.store(f, sums, record, output)

    def _window(self, f: KernelFunction, inputs: Value, weights: Value, sums: list[Value]) -> tuple[Value, list[Value]]:
        pinned, channels = self.core.pinned, self.channels
        starts = [f.offset(inputs, f.load_i32(weights, 4 * q, volatile=pinned)) for q in range(2)]
        held = [f.load_i32(weights, 8 + 4 * i, volatile=pinned) for i in range(2 * channels)] if self.pixels > 1 else []
        for p in range(self.pixels):
            f.split()
            pairs = [f.load_i32(start, p * self.pitch, volatile=pinned) for start in starts]
            for j in range(channels):
                total: Value | int = 1 << 15
                for q in range(2):
                    i = q * channels + j
                    factor = held[i] if held else f.load_i32(weights, 8 + 4 * i, volatile=pinned)
                    total = f.add(f.mul(factor, pairs[q]), total)
                sums[j * self.pixels + p] = f.add(sums[j * self.pixels + p], f.ashr(total, 16))
        return f.offset(weights, 8 + 8 * channels), sums


@dataclass(frozen=True)
class _Window:
    """Two pairs of taps: the offsets of their inputs, and weights int64 [channels, pair, 2]."""

    offsets: tuple[int, int]
    weights: Int64Array


def pack_stream(weights: Int64Array) -> tuple[bytes, int]:
    """The stream of one block, and its bytes when expanded. `weights` int64 [channels, segments, taps]."""
    stream = bytearray()
    expanded = 0
    for segment in range(weights.shape[1]):
        windows = _windows(weights[:, segment])
        size = len(windows) * (8 + 8 * len(weights))
        expanded += 4 + size
        stream += np.array([size], "<u2").tobytes()
        for window in windows:
            # [channel, pair, (first, second)] -> pair, channel, (second, first): the product crosses them.
            crossed = window.weights.transpose(1, 0, 2)[:, :, ::-1]
            stream += np.array(window.offsets, "<u2").tobytes() + crossed.astype(np.int8).tobytes()
    return bytes(stream), expanded


def _windows(weights: Int64Array) -> list[_Window]:
    """Windows within LIMIT that stand for `weights` [channels, taps]; at least one.

    Pairs are matched greedily, the heaviest first, each with the heaviest that still fits.
    """
    padded = np.pad(weights, [(0, 0), (0, weights.shape[1] % 2)])
    pairs = [
        (4 * i, part) for i, pair in enumerate(np.split(padded, padded.shape[1] // 2, axis=1)) for part in _parts(pair)
    ]
    pairs.sort(key=lambda pair: (-int(abs(pair[1]).sum(axis=1).max()), pair[0]))
    sizes = np.array([abs(pair).sum(axis=1) for _, pair in pairs]).reshape(len(pairs), len(weights))
    free = np.ones(len(pairs), bool)
    windows = []
    for i, (offset, pair) in enumerate(pairs):
        if not free[i]:
            continue
        free[i] = False
        fitting = np.flatnonzero(free & ((sizes + sizes[i]).max(axis=1) <= LIMIT))
        other, second = pairs[fitting[0]] if fitting.size else (offset, np.zeros_like(pair))
        if fitting.size:
            free[fitting[0]] = False
        windows.append(_Window((offset, other), np.stack([pair, second], axis=1)))
    return windows or [_Window((0, 0), np.zeros((len(weights), 2, 2), np.int64))]


def _parts(pair: Int64Array) -> list[Int64Array]:
    """A pair's weights [channels, 2] as summands within LIMIT: none where all are zero, two where both are -128."""
    if not pair.any():
        return []
    if abs(pair).sum(axis=1).max() <= LIMIT:
        return [pair]
    return [pair - pair // 2, pair // 2]
