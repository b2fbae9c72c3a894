# SPDX-License-Identifier: Apache-2.0
"""Helium convolution from the row ring, for input channels in whole vectors: one output channel, four pixels.

Neighbouring windows share input columns: each is loaded once for all of the four pixels that use it, while the
window row's weights of one 16-channel slice stay in vector registers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.codegen.builder import PTR, Value
from compiler.kernels.kernel import (
    OUTPUT,
    CompileOptions,
    Constant,
    Kernel,
    KernelCall,
    KernelFunction,
    Lowered,
)
from compiler.kernels.mve.products import (
    OUTPUT_PARAMETERS,
    PIXELS,
    channel_records,
    finish,
    load_record,
    output_range,
    record_words,
)
from compiler.kernels.mve.ring import RING_PARAMETERS, RingShape, RowRing, ring_arguments, ring_bytes
from compiler.kernels.mve.vector import CHUNK, RequantizeMode, dot, lane_offsets, load_chunk, store_strided
from compiler.kernels.overlap import from_ring
from compiler.kernels.packing import folded_bias
from compiler.kernels.problems import Conv2D

WIDEST = 5
"""Columns of the window whose weights fit in registers beside the input."""
_UNROLLED_ROWS = 160
_UNROLLED_SLICES = 64


@dataclass(frozen=True)
class ConvRingMve(Kernel):
    """`width` columns of the window, `stride` columns from pixel to pixel, `slices` of 16 input channels; `ragged`
    where the output width is no multiple of four."""

    ring: RingShape
    width: int
    stride: int
    slices: int
    ragged: bool
    mode: RequantizeMode

    parameters = (*RING_PARAMETERS, "output_width", "groups", "weights", "records", *OUTPUT_PARAMETERS)
    options = CompileOptions(flags=("-enable-misched=false",))

    @property
    def name(self) -> str:
        shape = f"w{self.width}s{self.stride}c{self.slices}"
        return f"conv_ring_mve_{self.ring.name}_{shape}_{self.mode.name}{'r' * self.ragged}"

    @property
    def height(self) -> int:
        return len(self.ring.used)

    @property
    def depth(self) -> int:
        """Bytes of a pixel."""
        return CHUNK * self.slices

    def build(self, f: KernelFunction) -> None:
        ring = RowRing(f, self.ring)
        output_row = f.mul(f.integer("output_width"), f.integer("channels"))

        def row(_: Value, carried: list[Value]) -> list[Value]:
            slot, at, output = carried
            slot, at = ring.advance(slot, at)
            self._row(f, ring.rows(slot), output)
            return [slot, ring.skip(at), f.offset(output, output_row)]

        slot, at = ring.start()
        f.loop(f.integer("output_height"), row, [slot, at, f.pointer("output")])

    def _row(self, f: KernelFunction, rows: list[Value], output: Value) -> None:
        channels, width = f.integer("channels"), f.integer("output_width")
        limits = output_range(f, self.mode)
        offsets = lane_offsets(f, channels)
        step, output_step = PIXELS * self.stride * self.depth, f.shl(channels, 2)
        unrolled = self.height * self.width * self.slices * PIXELS <= _UNROLLED_ROWS
        table = None if unrolled else f.alloca(PTR, self.height)
        if table is not None:
            for index, address in enumerate(rows):
                f.store(address, table, 4 * index)

        def channel(_: Value, carried: list[Value]) -> list[Value]:
            weight, record, out = carried
            bias, scale = load_record(f, record, self.mode)

            def group(_: Value, carried: list[Value]) -> list[Value]:
                to, *at = carried
                if table is None:
                    sums = self._unrolled(f, at, weight)
                else:
                    sums = self._looped(f, table, at[0], weight)
                store_strided(f, finish(f, self.mode, sums, bias, scale, limits), to, offsets)
                advanced = [f.offset(a, step) if table is None else f.add(a, step) for a in at]
                return [f.offset(to, output_step), *advanced]

            def start(pixel: Value) -> list[Value]:
                x = f.mul(pixel, self.stride * self.depth)
                to = f.offset(out, f.mul(pixel, channels))
                return [to, *([f.offset(r, x) for r in rows] if table is None else [x])]

            def part(index: Value, _: list[Value]) -> None:
                tail = f.compare("!=", index, 0)
                first = f.select(tail, f.sub(width, PIXELS), 0)
                f.loop(f.select(tail, 1, f.integer("groups")), group, start(first))

            if self.ragged:
                f.loop(2, part)
            else:
                f.loop(f.integer("groups"), group, start(f.const(0)))
            return [
                f.offset(weight, self.height * self.width * self.depth),
                f.offset(record, 4 * record_words(self.mode)),
                f.offset(out, 1),
            ]

        f.loop(channels, channel, [f.pointer("weights"), f.pointer("records"), output])

    def _unrolled(self, f: KernelFunction, rows: list[Value], weight: Value) -> list[Value]:
        sums: list[Value] = [f.const(0)] * PIXELS
        for index, row in enumerate(rows):
            for k in range(self.slices):
                sums = self._slice(f, row, k, weight, (index * self.slices + k) * self.width, sums)
        return sums

    def _looped(self, f: KernelFunction, table: Value, x: Value, weight: Value) -> list[Value]:
        together = next(
            u
            for u in range(self.slices, 0, -1)
            if self.slices % u == 0 and (u * self.width * 4 <= _UNROLLED_SLICES or u == 1)
        )

        def window_row(index: Value, carried: list[Value]) -> list[Value]:
            weight, *sums = carried
            row = f.offset(f.load(PTR, table, f.shl(index, 2)), x)

            def slices(_: Value, carried: list[Value]) -> list[Value]:
                row, weight, *sums = carried
                for k in range(together):
                    sums = self._slice(f, row, k, weight, k * self.width, sums)
                return [f.offset(row, CHUNK * together), f.offset(weight, CHUNK * together * self.width), *sums]

            _, weight, *sums = f.loop(self.slices // together, slices, [row, weight, *sums])
            return [weight, *sums]

        return f.loop(self.height, window_row, [weight, *[f.const(0)] * PIXELS])[1:]

    def _slice(
        self, f: KernelFunction, row: Value, k: int, weight: Value, first: int, sums: list[Value]
    ) -> list[Value]:
        """Adds 16 channels of one window row to the four sums."""
        sums = list(sums)
        taps = [load_chunk(f, weight, CHUNK * (first + c), words=True) for c in range(self.width)]
        for column in range((PIXELS - 1) * self.stride + self.width):
            users = [(p, column - p * self.stride) for p in range(PIXELS)]
            users = [(p, tap) for p, tap in users if 0 <= tap < self.width]
            if users:
                x = load_chunk(f, row, column * self.depth + CHUNK * k, words=True)
                for p, tap in users:
                    sums[p] = dot(f, sums[p], taps[tap], x)
        return sums


def fits(layer: Conv2D) -> bool:
    """Whether this family runs the layer, without wasting more than a third of its work on overlapping groups."""
    w = layer.window
    groups = -(-w.output_width // PIXELS)
    return (
        w.input_channels % CHUNK == 0
        and w.dilation_width == 1
        and w.kernel_width <= WIDEST
        and w.output_width >= PIXELS
        and 3 * groups * PIXELS <= 4 * w.output_width
    )


def lower(layer: Conv2D) -> Lowered:
    """A layer that `fits`; reads nothing outside the input."""
    w, r = layer.window, layer.requantization
    mode = RequantizeMode.of(r)
    slices = w.input_channels // CHUNK
    kernel = ConvRingMve(RingShape.of(w), w.kernel_width, w.stride_width, slices, w.output_width % PIXELS != 0, mode)
    shape = (w.output_channels, w.kernel_height, w.kernel_width, slices, CHUNK)
    weights = np.ascontiguousarray(layer.weights.reshape(shape).transpose(0, 1, 3, 2, 4))
    bias = folded_bias(layer.weights.reshape(w.output_channels, -1), layer.bias, layer.input_zero_point)
    call = KernelCall(
        kernel,
        (
            *ring_arguments(w, layer.input_zero_point),
            w.output_width,
            w.output_width // PIXELS,
            Constant(weights.tobytes(), CHUNK),
            Constant(channel_records(bias, r, mode).tobytes()),
            OUTPUT,
            w.output_channels,
            r.zero_point,
            r.minimum,
            r.maximum,
        ),
    )
    return Lowered((call,), ring_bytes(w), layer.macs, overlaps=(from_ring(w),))
