# SPDX-License-Identifier: Apache-2.0
"""Helium depthwise convolution of narrow images, windows up to 4x4: one channel of the whole image at a time.

As in the columns family a window is 16 bytes in a row; here all strips of a channel are brought in first, straight
from the input, two new rows a strip: rows outside the input come from a row of zero points, columns outside it are
set by a lane mask.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from llvmlite import ir

from compiler.codegen.builder import I16, PTR, Value
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
    Place,
    Role,
)
from compiler.kernels.mve.depthwise_columns import (
    LANES,
    REACH,
    output_offsets,
    packed_weights,
    store_outputs,
)
from compiler.kernels.mve.products import (
    OUTPUT_PARAMETERS,
    channel_records,
    load_record,
    output_range,
    record_words,
)
from compiler.kernels.mve.vector import (
    CHUNK,
    V8I1,
    V8I16,
    OutputRange,
    RequantizeMode,
    Scale,
    fill_bytes,
    gather_bytes,
    insert_high,
    lane_values,
    load_chunk,
    splat,
    store_interleaved,
)
from compiler.kernels.overlap import of_channels
from compiler.kernels.packing import folded_bias
from compiler.kernels.problems import DepthwiseConv2D

WIDEST = 4
"""Vectors of eight columns at most."""


class _Lanes:
    """Store offsets of the groups' lanes; those asked for before the loops stay in registers."""

    def __init__(self, f: KernelFunction, channels: Value, row_bytes: Value, strip: int) -> None:
        self.f, self.channels, self.row_bytes, self.strip = f, channels, row_bytes, strip
        self._known: dict[tuple[tuple[int, ...], Value], Value] = {}

    def offsets(self, columns: list[int], second_row: Value) -> Value:
        """Those of a group: its columns from its first one."""
        key = (tuple(columns), second_row)
        if key not in self._known:
            self._known[key] = output_offsets(self.f, columns, self.strip, self.channels, second_row)
        return self._known[key]


@dataclass(frozen=True)
class DepthwisePlaneMve(Kernel):
    """`pad` and `input_width` are columns, `stride` the column stride, `strip` the output rows that two new input rows
    give (the row stride's inverse); `odd` where the last strip has one row of two."""

    pad: int
    input_width: int
    output_width: int
    columns: int
    stride: int
    strip: int
    odd: bool
    mode: RequantizeMode

    parameters = (
        "input",
        "input_row",
        "input_height",
        "pad_top",
        "input_zero_point",
        "zero_row",
        "row_table",
        "columns",
        "strips",
        "whole_strips",
        "weights",
        "records",
        *OUTPUT_PARAMETERS,
    )
    options = CompileOptions(flags=("-enable-misched=false", "-disable-cgp"))

    @property
    def name(self) -> str:
        shape = f"{self.pad}p{self.input_width}w{self.output_width}k{self.columns}s{self.stride}x{self.strip}"
        return f"depthwise_plane_mve_{shape}{'o' * self.odd}_{self.mode.name}"

    @property
    def vectors(self) -> int:
        return -(-self.columns // LANES)

    def build(self, f: KernelFunction) -> None:
        channels, table = f.integer("channels"), f.pointer("row_table")
        self._row_table(f, table)
        limits = output_range(f, self.mode)
        lanes = _Lanes(f, channels, f.mul(channels, self.output_width), self.strip)
        for group in _groups(self.output_width, self.strip):
            lanes.offsets([column - group[0] for column in group], lanes.row_bytes)
        offsets = [
            lane_values(f, V8I16, [([self._source(LANES * v + lane) for lane in range(LANES)], channels)])
            for v in range(self.vectors)
        ]

        def channel(_: Value, carried: list[Value]) -> list[Value]:
            weight, record, out, *offsets = carried
            self._bring(f, table, offsets)
            self._compute(f, weight, record, out, limits, lanes)
            return [
                f.offset(weight, CHUNK * self.strip),
                f.offset(record, 4 * record_words(self.mode)),
                f.offset(out, 1),
                *[f.add(o, 1) for o in offsets],
            ]

        start = [f.pointer("weights"), f.pointer("records"), f.pointer("output"), *offsets]
        f.loop(channels, channel, start)

    def _source(self, column: int) -> int:
        """The input column that is read for a padded column."""
        return min(max(column - self.pad, 0), self.input_width - 1)

    def _inside(self, column: int) -> bool:
        return 0 <= column - self.pad < self.input_width

    def _row_table(self, f: KernelFunction, table: Value) -> None:
        """Addresses of the padded image's rows; those outside the input are the row of zero points."""
        row_bytes, zero_row = f.integer("input_row"), f.pointer("zero_row")
        fill_bytes(f, zero_row, f.integer("input_zero_point"), row_bytes)

        def row(index: Value, carried: list[Value]) -> list[Value]:
            y = f.sub(index, f.integer("pad_top"))
            inside = f.compare_unsigned("<", y, f.integer("input_height"))
            source = f.offset(f.pointer("input"), f.mul(y, row_bytes))
            f.store(f.builder.select(inside, source, zero_row), carried[0])
            return [f.offset(carried[0], 4)]

        f.loop(f.add(f.shl(f.integer("strips"), 1), 2), row, [table])

    def _bring(self, f: KernelFunction, table: Value, offsets: list[Value]) -> None:
        zero = splat(f, f.trunc(f.mul(f.and_(f.integer("input_zero_point"), 255), 257), I16), V8I16)

        def pair(table: Value) -> list[Value]:
            rows = [f.load(PTR, table, 4 * i) for i in range(2)]
            pairs = []
            for v, lanes in enumerate(offsets):
                both = insert_high(f, gather_bytes(f, rows[0], lanes), gather_bytes(f, rows[1], lanes))
                inside = [self._inside(LANES * v + lane) for lane in range(LANES)]
                if not all(inside):
                    mask = ir.Constant(V8I1, [int(i) for i in inside])
                    both = f.builder.select(mask, both, zero)
                pairs.append(both)
            return pairs

        def strip(_: Value, carried: list[Value]) -> list[Value]:
            to, table, *upper = carried
            lower = pair(table)
            for v in range(self.vectors):
                store_interleaved(f, upper[v], lower[v], f.offset(to, 4 * LANES * v))
            return [f.offset(to, 4 * LANES * self.vectors), f.offset(table, 8), *lower]

        f.loop(f.integer("strips"), strip, [f.pointer("columns"), f.offset(table, 8), *pair(table)])

    def _compute(
        self, f: KernelFunction, weight: Value, record: Value, out: Value, limits: OutputRange, lanes: _Lanes
    ) -> None:
        bias, scale = load_record(f, record, self.mode)
        taps = [load_chunk(f, weight, CHUNK * s, words=True) for s in range(self.strip)]

        def strip(_: Value, carried: list[Value]) -> list[Value]:
            x, to = carried
            self._groups(f, x, taps, bias, scale, limits, to, lanes, lanes.row_bytes)
            return [f.offset(x, 4 * LANES * self.vectors), f.offset(to, f.mul(lanes.row_bytes, self.strip))]

        x, to = f.loop(f.integer("whole_strips"), strip, [f.pointer("columns"), out])
        if self.odd:
            # One row left: computed twice and stored twice to the same place.
            self._groups(f, x, [taps[0]] * 2, bias, scale, limits, to, lanes, f.const(0))

    def _groups(
        self,
        f: KernelFunction,
        x: Value,
        taps: list[Value],
        bias: Value,
        scale: Scale,
        limits: OutputRange,
        to: Value,
        lanes: _Lanes,
        second_row: Value,
    ) -> None:
        for group in _groups(self.output_width, self.strip):
            offsets = lanes.offsets([column - group[0] for column in group], second_row)
            target = f.offset(to, f.mul(lanes.channels, group[0])) if group[0] else to
            store_outputs(f, self.mode, x, self.stride, group, taps, bias, scale, limits, target, offsets)


def fits(layer: DepthwiseConv2D) -> bool:
    """Whether this family runs the layer: few columns, and 16-bit offsets that reach a row."""
    w = layer.window
    return (
        layer.multiplier == 1
        and w.dilation_height == w.dilation_width == 1
        and max(w.kernel_height, w.kernel_width) <= REACH
        and ((w.stride_height == 1 and w.kernel_height < REACH and w.output_height > 1) or w.stride_height == 2)
        and _columns(layer) <= WIDEST * LANES
        and max(w.input_width, 2 * w.output_width) * w.input_channels < 1 << 16
    )


def lower(layer: DepthwiseConv2D) -> Lowered:
    """A layer that `fits`; reads nothing outside the input."""
    w, r = layer.window, layer.requantization
    mode = RequantizeMode.of(r)
    strip = 2 // w.stride_height
    strips = -(-w.output_height // strip)
    odd = strips * strip != w.output_height
    kernel = DepthwisePlaneMve(
        w.pad_left, w.input_width, w.output_width, _columns(layer), w.stride_width, strip, odd, mode
    )
    row_bytes = w.input_width * w.input_channels
    table = -(-row_bytes // CHUNK) * CHUNK
    columns = table + -(-4 * (2 * strips + 2) // CHUNK) * CHUNK
    taps = np.ascontiguousarray(layer.weights.reshape(-1, w.output_channels).T)
    bias = folded_bias(taps, layer.bias, layer.input_zero_point)
    call = KernelCall(
        kernel,
        (
            INPUT,
            row_bytes,
            w.input_height,
            w.pad_top,
            layer.input_zero_point,
            SCRATCH,
            Place(Role.SCRATCH, 0, table),
            Place(Role.SCRATCH, 0, columns),
            strips,
            strips - int(odd),
            Constant(packed_weights(layer.weights, strip).tobytes(), CHUNK),
            Constant(channel_records(bias, r, mode).tobytes()),
            OUTPUT,
            w.output_channels,
            r.zero_point,
            r.minimum,
            r.maximum,
        ),
    )
    scratch = columns + 4 * LANES * kernel.vectors * strips + CHUNK
    return Lowered((call,), scratch, layer.macs, overlaps=(of_channels(w),))


def _columns(layer: DepthwiseConv2D) -> int:
    w = layer.window
    return (w.output_width - 1) * w.stride_width + w.kernel_width


def _groups(width: int, strip: int) -> list[list[int]]:
    """Output columns in the lanes of each group: of eight outputs, then of four; the last one overlaps, or repeats
    its last column where there are fewer columns than lanes."""
    wide, narrow = 8 // strip, 4 // strip
    groups = [list(range(first, first + wide)) for first in range(0, width - wide + 1, wide)]
    for first in range(len(groups) * wide, width, narrow):
        first = min(first, max(0, width - narrow))
        groups.append([min(first + i, width - 1) for i in range(narrow)])
    return groups
