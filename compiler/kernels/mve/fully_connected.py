# SPDX-License-Identifier: Apache-2.0
"""Helium fully connected layers: four outputs at a time, the outputs in the lanes of the requantisation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compiler.codegen.builder import Value
from compiler.kernels.kernel import (
    INPUT,
    OUTPUT,
    SCRATCH,
    CompileOptions,
    Constant,
    Kernel,
    KernelCall,
    KernelFunction,
    Lowered,
)
from compiler.kernels.mve.products import OUTPUT_PARAMETERS, channel_records, output_range
from compiler.kernels.mve.vector import (
    CHUNK,
    V4I32,
    RequantizeMode,
    Scale,
    copy_bytes,
    dot,
    gather_lanes,
    lane_offsets,
    load_chunk,
    requantize,
    splat,
    store_four,
    store_strided,
)
from compiler.kernels.overlap import of_groups
from compiler.kernels.packing import folded_bias, overlap_depth
from compiler.kernels.problems import FullyConnected, Window

LANES = 4


@dataclass(frozen=True)
class FullyConnectedMve(Kernel):
    """`unroll` chunks an iteration (no loop where `single`), then `rest` more, then a `partial` one that overlaps;
    `short`: a depth below 16, read from a copy. `words` where rows of the input lie on whole words. `ragged`: the last
    four outputs overlap the ones before; `few`: less than four outputs. With `filter_zero_point` a fifth row of ones
    sums the input."""

    unroll: int
    single: bool
    rest: int
    partial: bool
    short: bool
    words: bool
    ragged: bool
    few: bool
    filter_zero_point: bool
    mode: RequantizeMode

    parameters = (
        "input",
        "copy",
        "weights",
        "records",
        "steps",
        "blocks",
        "batches",
        "depth",
        "filter_zero_point",
        *OUTPUT_PARAMETERS,
    )
    options = CompileOptions(flags=("-enable-misched=false",))

    @property
    def name(self) -> str:
        facts = (self.single, self.partial, self.short, self.words, self.ragged, self.few, self.filter_zero_point)
        flags = "".join(letter for letter, fact in zip("1pswrfz", facts, strict=True) if fact)
        return f"fully_connected_mve_{self.unroll}_{self.rest}{flags}_{self.mode.name}"

    def build(self, f: KernelFunction) -> None:
        depth, channels = f.integer("depth"), f.integer("channels")

        def batch(_: Value, carried: list[Value]) -> list[Value]:
            x, out = carried
            row = x
            if self.short:
                row = f.pointer("copy")
                copy_bytes(f, row, x, depth)
            self._row(f, row, out, channels)
            return [f.offset(x, depth), f.offset(out, channels)]

        f.loop(f.integer("batches"), batch, [f.pointer("input"), f.pointer("output")])

    def _row(self, f: KernelFunction, x: Value, out: Value, channels: Value) -> None:
        blocks, steps = f.integer("blocks"), f.integer("steps")
        limits = output_range(f, self.mode)

        def block(_: Value, carried: list[Value]) -> list[Value]:
            weight, record, to = carried
            weight, sums = self._sums(f, x, weight, steps)
            values = f.add(gather_lanes(f, sums[:LANES]), f.load(V4I32, record, align=16))
            if self.filter_zero_point:
                values = f.sub(values, splat(f, f.mul(sums[LANES], f.integer("filter_zero_point")), V4I32))
            words = [f.load(V4I32, record, CHUNK * i, align=16) for i in range(1, self._record_chunks())]
            scale = Scale(words[0], words[1], words[2] if self.mode.left else None, None)
            values = requantize(f, self.mode, values, scale, limits)
            if self.few:
                store_strided(f, values, to, lane_offsets(f, f.const(1)), channels)
            else:
                store_four(f, values, to)
            return [weight, f.offset(record, CHUNK * self._record_chunks()), f.offset(to, LANES)]

        def part(index: Value, carried: list[Value]) -> list[Value]:
            tail = f.compare("!=", index, 0)
            to = f.offset(out, f.select(tail, f.sub(channels, LANES), 0))
            return f.loop(f.select(tail, 1, blocks), block, [*carried, to])[:2]

        start = [f.pointer("weights"), f.pointer("records")]
        if self.ragged:
            f.loop(2, part, start)
        else:
            f.loop(blocks, block, [*start, out])

    def _record_chunks(self) -> int:
        return 3 + int(self.mode.left)

    def _sums(self, f: KernelFunction, x: Value, weight: Value, steps: Value) -> tuple[Value, list[Value]]:
        rows = LANES + int(self.filter_zero_point)

        def step(count: int, carried: list[Value]) -> list[Value]:
            weight, x, *sums = carried
            for k in range(count):
                chunk = load_chunk(f, x, CHUNK * k, words=self.words)
                for row in range(rows):
                    w = load_chunk(f, weight, CHUNK * (k * rows + row), words=True)
                    sums[row] = dot(f, sums[row], w, chunk)
            return [f.offset(weight, CHUNK * rows * count), f.offset(x, CHUNK * count), *sums]

        last = f.offset(x, f.sub(f.integer("depth"), CHUNK))
        state: list[Value] = [weight, x, *[f.const(0)] * rows]
        if self.single:
            state = step(self.unroll, state)
        else:
            state = f.loop(steps, lambda _, carried: step(self.unroll, carried), state)
        weight, x, *sums = step(self.rest, state)
        if self.partial:
            weight, _, *sums = step(1, [weight, last, *sums])
        return weight, sums


def cost(depth: int, batches: int, outputs: int) -> int:
    """Instructions of a layer, near enough to choose a family."""
    return batches * -(-outputs // LANES) * (9 * -(-depth // CHUNK) + 18)


def lower(layer: FullyConnected) -> Lowered:
    """Any fully connected layer; reads nothing outside the input."""
    r = layer.requantization
    outputs, depth = layer.weights.shape
    mode = RequantizeMode.of(r)
    chunks = max(1, depth // CHUNK)
    unroll = _unroll(chunks)
    blocks = _blocks(outputs)
    bias = folded_bias(layer.weights, layer.bias, layer.input_zero_point)
    bias = bias + depth * layer.input_zero_point * layer.filter_zero_point
    kernel = FullyConnectedMve(
        unroll,
        chunks == unroll,
        chunks % unroll,
        depth > CHUNK and depth % CHUNK != 0,
        depth < CHUNK,
        depth % 4 == 0,
        outputs > LANES and outputs % LANES != 0,
        outputs < LANES,
        layer.filter_zero_point != 0,
        mode,
    )
    call = KernelCall(
        kernel,
        (
            INPUT,
            SCRATCH,
            Constant(_packed_weights(layer, blocks).tobytes(), CHUNK),
            Constant(_packed_records(channel_records(bias, r, mode), blocks, mode).tobytes(), CHUNK),
            chunks // unroll,
            max(1, outputs // LANES),
            layer.batches,
            depth,
            layer.filter_zero_point,
            OUTPUT,
            outputs,
            r.zero_point,
            r.minimum,
            r.maximum,
        ),
    )
    line = Window(1, layer.batches, depth, 1, layer.batches, outputs, 1, 1, 1, 1, 0, 0)
    overlap = of_groups(line, 1, reads_first=kernel.short)
    return Lowered((call,), CHUNK if depth < CHUNK else 0, layer.macs, overlaps=(overlap,))


def _unroll(chunks: int) -> int:
    """Chunks an iteration: the fewest left over, then the most."""
    return chunks if chunks <= 8 else min((8, 7, 6, 5, 4), key=lambda u: (chunks % u, -u))


def _blocks(outputs: int) -> NDArray[np.int64]:
    """The output in each lane of each block, [blocks, 4]; the last block ends with the last output."""
    starts = [min(start, max(0, outputs - LANES)) for start in range(0, outputs, LANES)]
    return np.minimum(np.array(starts)[:, None] + np.arange(LANES), outputs - 1)


def _packed_weights(layer: FullyConnected, blocks: NDArray[np.int64]) -> NDArray[np.int8]:
    """[blocks, chunks, rows, 16]."""
    rows = layer.weights[blocks]
    if layer.filter_zero_point:
        rows = np.concatenate([rows, np.ones_like(rows[:, :1])], axis=1)
    padded = overlap_depth(rows, CHUNK)
    return np.ascontiguousarray(padded.reshape(len(blocks), rows.shape[1], -1, CHUNK).transpose(0, 2, 1, 3))


def _packed_records(records: NDArray[np.int32], blocks: NDArray[np.int64], mode: RequantizeMode) -> NDArray[np.int32]:
    """[blocks, words, 4]; lanes need no rounding flag."""
    return np.ascontiguousarray(records[:, : 3 + int(mode.left)][blocks].transpose(0, 2, 1))
