# SPDX-License-Identifier: Apache-2.0
"""Helium depthwise convolution in HWC order: eight channels a time, any window.

The ring holds one byte for each output channel (an input channel repeated `multiplier` times), so that eight
neighbouring bytes always belong to eight output channels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
from compiler.kernels.mve.products import OUTPUT_PARAMETERS, channel_records, output_range
from compiler.kernels.mve.ring import RING_PARAMETERS, RingShape, RowRing, ring_arguments, ring_bytes
from compiler.kernels.mve.vector import (
    CHUNK,
    V4I32,
    RequantizeMode,
    Scale,
    load_eight,
    multiply_long,
    requantize_pair,
    store_eight,
)
from compiler.kernels.overlap import from_ring
from compiler.kernels.packing import folded_bias
from compiler.kernels.problems import DepthwiseConv2D

LANES = 8


@dataclass(frozen=True)
class DepthwiseMve(Kernel):
    """`width` is the window's, `pixels` (1 or 2) are computed together, `ragged` where they do not divide the output
    width, `few` with fewer than eight channels, `tail` where eight do not divide them; `repeated` with a depth
    multiplier above one."""

    ring: RingShape
    width: int
    pixels: int
    ragged: bool
    few: bool
    tail: bool
    repeated: bool
    mode: RequantizeMode

    parameters = (
        *RING_PARAMETERS,
        "multiplier",
        "output_width",
        "column",
        "step",
        "blocks",
        "weights",
        "records",
        *OUTPUT_PARAMETERS,
    )
    options = CompileOptions(optimize=True, flags=("-enable-misched=false",))

    @property
    def name(self) -> str:
        flags = "r" * self.ragged + "f" * self.few + "t" * self.tail + "m" * self.repeated
        return f"depthwise_mve_{self.ring.name}_w{self.width}x{self.pixels}{flags}_{self.mode.name}"

    def build(self, f: KernelFunction) -> None:
        ring = RowRing(f, self.ring, f.integer("multiplier") if self.repeated else None)
        table = f.alloca(PTR, len(self.ring.used))
        output_row = f.mul(f.integer("output_width"), f.integer("channels"))

        def row(_: Value, carried: list[Value]) -> list[Value]:
            slot, at, output = carried
            slot, at = ring.advance(slot, at)
            for index, address in enumerate(ring.rows(slot)):
                f.store(address, table, 4 * index)
            self._row(f, table, output)
            return [slot, ring.skip(at), f.offset(output, output_row)]

        slot, at = ring.start()
        f.loop(f.integer("output_height"), row, [slot, at, f.pointer("output")])

    def _row(self, f: KernelFunction, table: Value, output: Value) -> None:
        channels, step = f.integer("channels"), f.integer("step")
        width = f.integer("output_width")

        def pixel(first: Value) -> None:
            x, to = f.mul(first, step), f.offset(output, f.mul(first, channels))
            start = [f.pointer("weights"), f.pointer("records"), x, to]

            def block(_: Value, carried: list[Value]) -> list[Value]:
                return self._block(f, table, carried)

            if not self.tail:
                f.loop(f.integer("blocks"), block, start)
                return

            def part(index: Value, carried: list[Value]) -> list[Value]:
                at = f.select(f.compare("!=", index, 0), f.sub(channels, LANES), 0)
                count = f.select(f.compare("!=", index, 0), 1, f.integer("blocks"))
                return f.loop(count, block, [*carried, f.add(x, at), f.offset(to, at)])[:2]

            f.loop(2, part, start[:2])

        if self.pixels == 1:
            f.loop(width, lambda first, _: pixel(first))
            return

        def group(first: Value, _: list[Value]) -> None:
            pixel(f.minimum(first, f.sub(width, self.pixels)) if self.ragged else first)

        f.loop(f.and_(f.add(width, 1), -2) if self.ragged else width, group, step=self.pixels)

    def _block(self, f: KernelFunction, table: Value, carried: list[Value]) -> list[Value]:
        weight, record, x, to = carried
        column, step, channels = f.integer("column"), f.integer("step"), f.integer("channels")
        bias = [f.load(V4I32, record, CHUNK * half, align=16) for half in range(2)]

        def window_row(index: Value, carried: list[Value]) -> list[Value]:
            weight, *sums = carried
            cursor = f.offset(f.load(PTR, table, f.shl(index, 2)), x)
            for k in range(self.width):
                taps = load_eight(f, weight, LANES * k)
                for p in range(self.pixels):
                    values = load_eight(f, f.offset(cursor, step) if p else cursor)
                    for half in range(2):
                        product = multiply_long(f, values, taps, odd=bool(half))
                        sums[2 * p + half] = f.add(sums[2 * p + half], product)
                cursor = f.offset(cursor, column)
            return [f.offset(weight, LANES * self.width), *sums]

        weight, *sums = f.loop(len(self.ring.used), window_row, [weight, *bias * self.pixels])
        rows = [f.load(V4I32, record, CHUNK * i, align=16) for i in range(2, 2 * self._record_chunks())]
        scales = tuple(Scale(rows[h], rows[2 + h], rows[4 + h] if self.mode.left else None, None) for h in range(2))
        limits = output_range(f, self.mode)
        for p in range(self.pixels):
            values = requantize_pair(f, self.mode, sums[2 * p], sums[2 * p + 1], (scales[0], scales[1]), limits)
            store_eight(f, values, f.offset(to, channels) if p else to, channels if self.few else None)
        return [weight, f.offset(record, 2 * CHUNK * self._record_chunks()), f.add(x, LANES), f.offset(to, LANES)]

    def _record_chunks(self) -> int:
        return 3 + int(self.mode.left)


def lower(layer: DepthwiseConv2D) -> Lowered:
    """Any depthwise convolution; reads nothing outside the input."""
    w, r = layer.window, layer.requantization
    mode = RequantizeMode.of(r)
    channels = w.output_channels
    pixels = min(2, w.output_width)
    kernel = DepthwiseMve(
        RingShape.of(w),
        w.kernel_width,
        pixels,
        w.output_width % pixels != 0,
        channels < LANES,
        channels > LANES and channels % LANES != 0,
        layer.multiplier != 1,
        mode,
    )
    blocks = _blocks(channels)
    taps = layer.weights.reshape(-1, channels)
    bias = folded_bias(np.ascontiguousarray(taps.T), layer.bias, layer.input_zero_point)
    records = channel_records(bias, r, mode)[:, : 3 + int(mode.left)]
    # Word by word the even lanes, then the odd ones, as VMULLB and VMULLT split them.
    lanes = records[blocks].reshape(len(blocks), LANES // 2, 2, -1).transpose(0, 3, 2, 1)
    weights = np.ascontiguousarray(taps[:, blocks].transpose(1, 0, 2))
    call = KernelCall(
        kernel,
        (
            *ring_arguments(w, layer.input_zero_point, multiplier=layer.multiplier),
            layer.multiplier,
            w.output_width,
            w.dilation_width * channels,
            w.stride_width * channels,
            max(1, channels // LANES),
            Constant(weights.tobytes(), CHUNK),
            Constant(np.ascontiguousarray(lanes).tobytes(), CHUNK),
            OUTPUT,
            channels,
            r.zero_point,
            r.minimum,
            r.maximum,
        ),
    )
    return Lowered((call,), ring_bytes(w, layer.multiplier), layer.macs, overlaps=(from_ring(w),))


def _blocks(channels: int) -> NDArray[np.int64]:
    """The channel in each lane of each block, [blocks, 8]; the last block ends with the last channel."""
    starts = [min(start, max(0, channels - LANES)) for start in range(0, channels, LANES)]
    return np.minimum(np.array(starts)[:, None] + np.arange(LANES), channels - 1)
