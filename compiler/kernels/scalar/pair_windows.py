# SPDX-License-Identifier: Apache-2.0
"""Packs weights for `ConvPairs`: which pairs of taps share a window, and the bytes of streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from compiler.kernels.packing import Int64Array
from compiler.kernels.scalar.conv_pairs import window_bytes

LIMIT = 255
"""The greatest sum of absolute weights in a window: |a*w + ...| <= 128 * LIMIT < 2**15, likewise the lower halves."""


@dataclass(frozen=True)
class _Window:
    """Pairs of taps: the numbers of their first inputs, and weights int64 [channels, pair, 2]."""

    offsets: tuple[int, ...]
    weights: Int64Array


@dataclass(frozen=True, eq=False)
class Packing:
    """A block's windows of `depth` pairs, a list for each segment."""

    channels: int
    depth: int
    segments: tuple[tuple[_Window, ...], ...]

    @cached_property
    def windows(self) -> int:
        return sum(len(windows) for windows in self.segments)

    @property
    def expanded(self) -> int:
        """Bytes of the expanded form."""
        return 4 * len(self.segments) + self.windows * window_bytes(self.depth, self.channels)

    def stream_bytes(self, stored: bool) -> int:
        """Of `stream`."""
        compact = 2 * len(self.segments) + self.windows * 2 * self.depth * (1 + self.channels)
        return self.expanded if stored else compact

    def stream(self, stored: bool, unit: int) -> bytes:
        """The stream as flash holds it: expanded, or not; `unit` bytes stand for an input."""
        if (stored, unit) not in self._streams:
            parts = (_segment(windows, self.depth, self.channels, stored, unit) for windows in self.segments)
            self._streams[stored, unit] = b"".join(parts)
        return self._streams[stored, unit]

    @cached_property
    def _streams(self) -> dict[tuple[bool, int], bytes]:
        """Those that were asked for."""
        return {}


def pack_block(weights: Int64Array, depth: int, starts: Int64Array | None = None) -> Packing:
    """Windows of `depth` pairs for a block's `weights` int64 [channels, segments, taps]. `starts`: the segments' first
    inputs, which makes one segment of them."""
    channels, _, taps = weights.shape
    padded = np.pad(weights, [(0, 0), (0, 0), (0, taps % 2)])
    first = np.arange(0, padded.shape[2], 2)
    if starts is not None:
        first, padded = (starts[:, None] + first).ravel(), padded.reshape(channels, 1, -1)
    windows = (_windows(channels, padded[:, s].tobytes(), first.tobytes(), depth) for s in range(padded.shape[1]))
    return Packing(channels, depth, tuple(windows))


def _segment(windows: Sequence[_Window], depth: int, channels: int, stored: bool, unit: int) -> bytes:
    stream = bytearray(np.array([len(windows) * window_bytes(depth, channels)], "<u4" if stored else "<u2").tobytes())
    for window in windows:
        stream += (unit * np.array(window.offsets)).astype("<u2").tobytes()
        # [channel, pair, (first, second)] -> pair, channel, (second, first): the product crosses them.
        crossed = window.weights.transpose(1, 0, 2)[:, :, ::-1]
        if stored:
            stream += bytes(2 * (depth % 2))
            words = crossed[:, :, 0] + (crossed[:, :, 1] << 16)
            stream += (words & 0xFFFFFFFF).astype("<u4").tobytes()
        else:
            stream += crossed.astype(np.int8).tobytes()
    return bytes(stream)


@lru_cache(maxsize=1 << 14)
def _windows(channels: int, weights: bytes, starts: bytes, depth: int) -> tuple[_Window, ...]:
    """Windows within LIMIT that stand for `weights` int64 [channels, taps], of pairs at `starts` int64; at least one.

    Pairs are matched greedily, the heaviest first, each with the heaviest ones that still fit. Known results are kept:
    the same weights are packed for each number of rows that a layer may compute at a time.
    """
    first = np.frombuffer(starts, np.int64)
    pairs = np.frombuffer(weights, np.int64).reshape(channels, -1, 2).transpose(1, 0, 2)
    sizes = abs(pairs).sum(axis=2)
    # A pair of which a channel has -128 twice is two summands.
    beyond = sizes.max(axis=1) > LIMIT
    halves = pairs[beyond] // 2
    pairs = np.concatenate([pairs, halves])
    pairs[: len(beyond)][beyond] -= halves
    first = np.concatenate([first, first[beyond]])
    sizes = abs(pairs).sum(axis=2)
    order = np.lexsort((first, -sizes.max(axis=1)))
    order = order[sizes[order].any(axis=1)]
    pairs, sizes, first = pairs[order], sizes[order], first[order]
    rest = np.arange(len(pairs))
    windows = []
    while rest.size:
        chosen, size = [int(rest[0])], sizes[rest[0]]
        rest = rest[1:]
        while len(chosen) < depth and rest.size:
            fits = (sizes[rest] + size).max(axis=1) <= LIMIT
            at = int(fits.argmax())
            if not fits[at]:
                break
            chosen.append(int(rest[at]))
            size = size + sizes[rest[at]]
            rest = np.delete(rest, at)
        filled = np.zeros((channels, depth, 2), np.int64)
        filled[:, : len(chosen)] = pairs[chosen].transpose(1, 0, 2)
        offsets = [int(first[c]) for c in chosen]
        windows.append(_Window((*offsets, *[offsets[0]] * (depth - len(chosen))), filled))
    return tuple(windows) or (_Window((0,) * depth, np.zeros((channels, depth, 2), np.int64)),)
