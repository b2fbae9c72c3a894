# SPDX-License-Identifier: Apache-2.0
"""Helium depthwise convolution with windows up to 4x4: one channel, a dot product for each output.

For a strip of one or two output rows the channel's input rows are brought into columns of four bytes. The four
columns under a window are then 16 bytes in a row, whatever the window's place; with three rows in the window and
row stride 1 the same load serves two output rows, by weights one byte further.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compiler.codegen.builder import Value
from compiler.kernels.kernel import (
    OUTPUT,
    CompileOptions,
    Constant,
    Kernel,
    KernelCall,
    KernelFunction,
    Lowered,
    Place,
    Role,
)
from compiler.kernels.mve.products import (
    OUTPUT_PARAMETERS,
    channel_records,
    load_record,
    output_range,
    record_words,
)
from compiler.kernels.mve.ring import RING_PARAMETERS, RingShape, RowRing, ring_arguments, ring_bytes
from compiler.kernels.mve.vector import (
    CHUNK,
    V4I32,
    V8I16,
    OutputRange,
    RequantizeMode,
    Scale,
    dot,
    gather_bytes,
    gather_lanes,
    insert_high,
    lane_values,
    load_chunk,
    requantize,
    requantize_pair,
    scatter_bytes,
    splat,
    store_interleaved,
    store_strided,
)
from compiler.kernels.overlap import from_ring
from compiler.kernels.packing import folded_bias
from compiler.kernels.problems import DepthwiseConv2D

REACH = 4
"""Rows and columns of a window at most."""
LANES = 8
"""Input columns brought in at a time."""


@dataclass(frozen=True)
class DepthwiseColumnsMve(Kernel):
    """`stride` is the column stride; `outputs` (4 or 8) are computed together in `strip` rows; `ragged` where the
    columns of a group do not divide the output width."""

    ring: RingShape
    strip: int
    stride: int
    outputs: int
    ragged: bool
    mode: RequantizeMode

    parameters = (
        *RING_PARAMETERS,
        "columns",
        "gathers",
        "output_width",
        "groups",
        "last",
        "weights",
        "records",
        *OUTPUT_PARAMETERS,
    )
    options = CompileOptions(flags=("-enable-misched=false", "-disable-cgp"))

    @property
    def name(self) -> str:
        shape = f"{self.strip}s{self.stride}x{self.outputs}{'r' * self.ragged}"
        return f"depthwise_columns_mve_{self.ring.name}_{shape}_{self.mode.name}"

    @property
    def width(self) -> int:
        """Output columns of a group."""
        return self.outputs // self.strip

    def build(self, f: KernelFunction) -> None:
        ring = RowRing(f, self.ring)
        row_bytes = f.mul(f.integer("output_width"), f.integer("channels"))
        last = f.integer("last")

        def strip(index: Value, carried: list[Value]) -> list[Value]:
            slot, at, output = carried
            slot, at = ring.advance(slot, at)
            # The last strip of an odd number of rows computes its row twice and stores it twice.
            single = f.compare("==", index, last)
            second_row, second_weights = f.select(single, 0, row_bytes), f.select(single, 0, CHUNK)
            self._strip(f, ring.rows(slot), output, second_row, second_weights)
            return [slot, ring.skip(at), f.offset(output, f.mul(row_bytes, self.strip))]

        slot, at = ring.start()
        f.loop(f.integer("output_height"), strip, [slot, at, f.pointer("output")])

    def _strip(
        self, f: KernelFunction, rows: list[Value], output: Value, second_row: Value, second_weights: Value
    ) -> None:
        channels, columns = f.integer("channels"), f.pointer("columns")
        limits = output_range(f, self.mode)
        offsets = output_offsets(f, range(self.width), self.strip, channels, second_row)

        def channel(_: Value, carried: list[Value]) -> list[Value]:
            weight, record, out, *sources = carried
            self._bring(f, sources, columns, channels)
            bias, scale = load_record(f, record, self.mode)
            taps = [load_chunk(f, weight, second_weights if s else 0, words=True) for s in range(self.strip)]

            def group(_: Value, carried: list[Value]) -> list[Value]:
                x, to = carried
                store_outputs(f, self.mode, x, self.stride, range(self.width), taps, bias, scale, limits, to, offsets)
                return [f.offset(x, 4 * self.width * self.stride), f.offset(to, f.mul(channels, self.width))]

            def part(index: Value, _: list[Value]) -> None:
                tail = f.compare("!=", index, 0)
                first = f.select(tail, f.sub(f.integer("output_width"), self.width), 0)
                x = f.offset(columns, f.mul(first, 4 * self.stride))
                f.loop(f.select(tail, 1, f.integer("groups")), group, [x, f.offset(out, f.mul(first, channels))])

            if self.ragged:
                f.loop(2, part)
            else:
                f.loop(f.integer("groups"), group, [columns, out])
            return [
                f.offset(weight, CHUNK * self.strip),
                f.offset(record, 4 * record_words(self.mode)),
                f.offset(out, 1),
                *[f.offset(source, 1) for source in sources],
            ]

        f.loop(channels, channel, [f.pointer("weights"), f.pointer("records"), output, *rows])

    def _bring(self, f: KernelFunction, sources: list[Value], columns: Value, channels: Value) -> None:
        """Fills the columns: byte r of column x is the channel's input in row r."""
        start = lane_values(f, V8I16, [(range(LANES), channels)])
        step = lane_values(f, V8I16, [([LANES] * LANES, channels)])

        def some(_: Value, carried: list[Value]) -> list[Value]:
            to, offsets = carried
            rows = [gather_bytes(f, source, offsets) for source in sources]
            pairs = [
                insert_high(f, rows[i], rows[i + 1]) if i + 1 < len(rows) else rows[i] for i in (0, 2) if i < len(rows)
            ]
            store_interleaved(f, pairs[0], pairs[-1], to)
            return [f.offset(to, 4 * LANES), f.add(offsets, step)]

        f.loop(f.integer("gathers"), some, [columns, start])


def fits(layer: DepthwiseConv2D) -> bool:
    """Whether this family runs the layer: 16-bit offsets reach a row, and rows are wide enough for a group."""
    w = layer.window
    row = (w.pad_left + w.input_width + w.pad_right + LANES) * w.input_channels
    return (
        layer.multiplier == 1
        and w.dilation_height == w.dilation_width == 1
        and max(w.kernel_height, w.kernel_width) <= REACH
        and w.output_width >= (2 if _strip(layer) == 2 else 4)
        and max(row, (w.output_width + LANES) * w.output_channels) < 1 << 16
    )


def lower(layer: DepthwiseConv2D) -> Lowered:
    """A layer that `fits`; reads nothing outside the input."""
    w, r = layer.window, layer.requantization
    mode = RequantizeMode.of(r)
    strip = _strip(layer)
    outputs = _outputs(w.output_width, strip)
    width = outputs // strip
    rows = w.kernel_height + strip - 1
    ring = RingShape(rows, strip * w.stride_height, tuple(range(rows)))
    kernel = DepthwiseColumnsMve(ring, strip, w.stride_width, outputs, w.output_width % width != 0, mode)
    strips = -(-w.output_height // strip)
    single_last = strips * strip != w.output_height
    gathers = -(-((w.output_width - 1) * w.stride_width + w.kernel_width) // LANES)
    arguments = ring_arguments(w, layer.input_zero_point)
    # Gathers run up to seven columns beyond a row.
    ring_size = -(-(ring_bytes(w, rows=rows) + LANES * w.input_channels) // CHUNK) * CHUNK
    taps = layer.weights.reshape(-1, w.output_channels).T
    bias = folded_bias(np.ascontiguousarray(taps), layer.bias, layer.input_zero_point)
    call = KernelCall(
        kernel,
        (
            *arguments[:-1],
            strips,
            Place(Role.SCRATCH, 0, ring_size),
            gathers,
            w.output_width,
            max(1, w.output_width // width),
            strips - 1 if single_last else -1,
            Constant(packed_weights(layer.weights, strip).tobytes(), CHUNK),
            Constant(channel_records(bias, r, mode).tobytes()),
            OUTPUT,
            w.output_channels,
            r.zero_point,
            r.minimum,
            r.maximum,
        ),
    )
    scratch = ring_size + 4 * LANES * gathers + CHUNK
    return Lowered((call,), scratch, layer.macs, overlaps=(from_ring(w, strip),))


def _strip(layer: DepthwiseConv2D) -> int:
    """Output rows that one column of four bytes serves."""
    w = layer.window
    return 2 if w.stride_height == 1 and w.kernel_height < REACH and w.output_height > 1 else 1


def _outputs(width: int, strip: int) -> int:
    """Outputs computed together: eight, unless groups of four waste less on the overlap (a group of four costs 18
    instructions, of eight 30)."""
    if width * strip < LANES:
        return 4
    return min((8, 4), key=lambda outputs: -(-width // (outputs // strip)) * {8: 30, 4: 18}[outputs])


def store_outputs(
    f: KernelFunction,
    mode: RequantizeMode,
    x: Value,
    stride: int,
    columns: Sequence[int],
    taps: list[Value],
    bias: Value,
    scale: Scale,
    limits: OutputRange,
    to: Value,
    offsets: Value,
) -> None:
    """Four or eight outputs of one channel: those of `columns` (output columns from `x` on), each in as many rows as
    there are `taps`, to the bytes at `to` + `offsets`."""
    added, quads = splat(f, bias, V4I32), []
    together = 4 // len(taps)
    for first in range(0, len(columns), together):
        sums: dict[int, list[Value]] = {}
        for column in columns[first : first + together]:
            if column not in sums:
                window = load_chunk(f, x, 4 * stride * column, words=True)
                sums[column] = [dot(f, f.const(0), tap, window) for tap in taps]
        lanes = [total for column in columns[first : first + together] for total in sums[column]]
        quads.append(f.add(gather_lanes(f, lanes), added))
        f.split()
    if len(quads) == 1:
        store_strided(f, requantize(f, mode, quads[0], scale, limits), to, offsets)
    else:
        scatter_bytes(f, requantize_pair(f, mode, quads[0], quads[1], (scale, scale), limits), to, offsets)


def output_offsets(f: KernelFunction, columns: Sequence[int], strip: int, channels: Value, second_row: Value) -> Value:
    """The offsets that `store_outputs` needs: of four outputs in turn, of eight the second four in the odd lanes."""
    places = [(column, row) for column in columns for row in range(strip)]
    if len(places) == 8:
        places = [places[lane // 2 + lane % 2 * 4] for lane in range(8)]
    across, down = zip(*places, strict=True)
    return lane_values(f, V4I32 if len(places) == 4 else V8I16, [(across, channels), (down, second_row)])


def packed_weights(weights: NDArray[np.int8], strip: int) -> NDArray[np.int8]:
    """[kernel_height, kernel_width, channels] -> [channels, strip, 4 columns, 4 rows]."""
    height, width, channels = weights.shape
    packed = np.zeros((channels, strip, REACH, REACH), np.int8)
    for s in range(strip):
        packed[:, s, :width, s : s + height] = weights.transpose(2, 1, 0)
    return packed
