# SPDX-License-Identifier: Apache-2.0
"""Convolution on scalar cores with two taps a multiplication.

For pairs of inputs a, b as the word a + b * 2**16 and weights w, v as v + w * 2**16, the upper half of the product's
low 32 bits is a*w + b*v. The products of several pairs add up, exact as (sum + 2**15) >> 16 while the pairs' absolute
weights sum up to 255 at most. Which pairs form such a window is chosen when weights are packed; pairs whose weights
are zero in a whole block are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from compiler.codegen.builder import I16, I32, Value
from compiler.kernels.kernel import KernelFunction
from compiler.kernels.scalar.conv_rows import FIELDS, Copy, RowKernel


@dataclass(frozen=True)
class ConvPairs(RowKernel):
    """A block's stream has for each segment its length in bytes, then windows of `depth` pairs: the offsets of their
    inputs as halfwords, and for each pair and each channel the weights as a word. It is `stored` like that, or flash
    holds the weights as bytes, which each output row expands into scratch. `pitch`: bytes between the windows of
    neighbouring pixels. Without a ring pairs are made where they are used.
    """

    depth: int
    stored: bool
    pitch: int

    parameters: ClassVar[tuple[str, ...]] = (*FIELDS, "expanded")

    @property
    def name(self) -> str:
        block = f"{self.channels}x{self.pixels}d{self.depth}p{self.pitch}"
        flags = f"{'s' if self.single else ''}{'c' if self.shared else ''}{'w' if self.stored else ''}"
        flags += f"{'o' if self.copy is Copy.NONE else ''}{'m' if self.mirrored else ''}"
        flags += f"{'f' if self.edges[0] else ''}{'l' if self.edges[1] else ''}"
        return "_".join(filter(None, ["conv_pairs", self.core.tag, block, self.form.tag, flags]))

    def row(self, f: KernelFunction, first: Value, output: Value) -> None:
        def block(_: Value, carried: list[Value]) -> list[Value]:
            stream, record = carried
            following = stream if self.stored else self._expanded(f, stream)
            start = stream if self.stored else f.pointer("expanded")

            def group(at: Value, to: Value, _: list[Value]) -> list[Value]:
                return [self._block(f, first, at, f.offset(output, to), start, record)]

            (end,) = self.over_groups(f, group, [start])
            return [end if self.stored else following, f.offset(record, self.block_bytes)]

        f.loop(f.integer("block_count"), block, [f.pointer("weights"), f.pointer("blocks")])

    def _expanded(self, f: KernelFunction, source: Value) -> Value:
        """Expands a block's stream; returns the end of its compact form."""
        head, words = 2 * self.depth, self.depth * self.channels

        def segment(_: Value, carried: list[Value]) -> list[Value]:
            source, target = carried
            size = f.zext(f.load(I16, source))
            f.store(size, target)
            start = f.offset(target, 4)

            def window(target: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
                (source,) = carried
                for i in range(self.depth):
                    f.store_i16(f.zext(f.load(I16, source, 2 * i)), target, 2 * i)
                for i in range(words):
                    f.split()
                    word = f.add(f.load_s8(source, head + 2 * i), f.shl(f.load_s8(source, head + 1 + 2 * i), 16))
                    f.store(word, target, offset_bytes(self.depth) + 4 * i)
                return f.offset(target, window_bytes(self.depth, self.channels)), [f.offset(source, head + 2 * words)]

            target, (source,) = f.loop_until(f.offset(start, size), start, window, [f.offset(source, 2)])
            return [source, target]

        count = f.const(1) if self.single else f.integer("segment_count")
        return f.loop(count, segment, [source, f.pointer("expanded")])[0]

    def _block(self, f: KernelFunction, first: Value, at: Value, output: Value, stream: Value, record: Value) -> Value:
        """Computes a block of outputs; returns the end of its stream."""
        starts = self.biases(f, record)

        def segment(base: Value, state: list[Value]) -> list[Value]:
            weights, *sums = state
            inputs = f.offset(base, at)
            start = f.offset(weights, 4)
            after, sums = f.loop_until(
                f.offset(start, f.load(I32, weights)), start, lambda w, sums: self._window(f, inputs, w, sums), sums
            )
            return [after, *sums]

        state = [stream, *(start for start in starts for _ in range(self.pixels))]
        end, *sums = self.over_segments(f, first, segment, state)
        self.store(f, sums, record, output)
        return end

    def _window(self, f: KernelFunction, inputs: Value, weights: Value, sums: list[Value]) -> tuple[Value, list[Value]]:
        """What there is less of is held in registers: the weights, or the inputs."""
        pinned, depth, channels, pixels = self.core.pinned, range(self.depth), range(self.channels), range(self.pixels)
        offsets = [f.zext(f.load(I16, weights, 2 * q, volatile=pinned)) for q in depth]
        starts = [f.offset(inputs, offset) for offset in offsets]

        def factor(q: int, j: int) -> Value:
            i = q * self.channels + j
            return f.load_i32(weights, offset_bytes(self.depth) + 4 * i, volatile=pinned)

        def values(p: int) -> list[Value]:
            return [self._pair(f, start, p * self.pitch) for start in starts]

        def add(j: int, p: int, pairs: list[Value], factors: list[Value]) -> None:
            total: Value | int = 1 << 15
            for q in depth:
                total = f.add(f.mul(factors[q] if factors else factor(q, j), pairs[q]), total)
            sums[j * self.pixels + p] = f.add(sums[j * self.pixels + p], f.ashr(total, 16))

        if self.channels > self.pixels:
            held = [values(p) for p in pixels]
            for j in channels:
                factors = [factor(q, j) for q in depth] if self.pixels > 1 else []
                for p in pixels:
                    add(j, p, held[p], factors)
        else:
            held = [[factor(q, j) for q in depth] for j in channels]
            for p in pixels:
                f.split()
                pairs = values(p)
                for j in channels:
                    add(j, p, pairs, held[j])
        return f.offset(weights, window_bytes(self.depth, self.channels)), sums

    def _pair(self, f: KernelFunction, start: Value, offset: int) -> Value:
        if self.copy is not Copy.NONE:
            return f.load_i32(start, offset, volatile=self.core.pinned)
        first, second = (f.load_s8(start, offset + i, volatile=self.core.pinned) for i in range(2))
        return f.add(first, f.shl(second, 16))


def offset_bytes(depth: int) -> int:
    """Of the offsets of a window, filled up to words."""
    return -(-depth // 2) * 4


def window_bytes(depth: int, channels: int) -> int:
    """Of a window in its expanded form."""
    return offset_bytes(depth) + 4 * depth * channels
