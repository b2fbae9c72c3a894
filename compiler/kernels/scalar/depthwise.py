# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution on scalar cores, one channel at a time.

A channel of the input is copied into a plane, padded with the input's zero point: neighbouring pixels become
neighbouring bytes, a kernel's code no longer depends on the number of channels, and weights are loaded once a channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from compiler.codegen.builder import I32, Value
from compiler.kernels import packed_records
from compiler.kernels.kernel import KernelFunction
from compiler.kernels.scalar.plane import PlaneKernel
from compiler.kernels.scalar.requantize import (
    REQUANTIZE_FIELDS,
    WORDS,
    ChannelValues,
    Form,
    Requantizer,
    load_channel,
)

FIELDS = (
    "input",
    "output",
    "records",  # an output channel's WORDS, then its weights
    "record_bytes",
    "channels",  # of the input, which is also the bytes between its pixels
    "multiplier",
    "output_channels",
    "input_height",
    "input_width",
    "plane",  # scratch; its rows' pitch, its bytes, and the offset of the input in it
    "plane_row",
    "plane_bytes",
    "plane_interior",
    "fill",  # the padding in all four bytes
    "output_height",
    "output_row",  # bytes of an output row
    "row_advance",  # plane bytes between output rows, between kernel rows and between taps
    "tap_row",
    "tap_column",
    "kernel_height",
    "kernel_width",
    "first_input",  # plane and output bytes from the first group of pixels, which the second may overlap
    "first_output",
    "group_input",  # and from the others
    "group_output",
    *REQUANTIZE_FIELDS,
    "squares",
)


class Weights(Enum):
    """Where a channel's weights are while its pixels are computed."""

    REGISTERS = "r"
    ROW = "k"
    """Loaded from the record a kernel row at a time."""
    STACK = "s"
    """Widened to words on the stack."""
    LOOP = "l"
    """Loaded tap by tap in loops over the kernel's rows and columns."""


@dataclass(frozen=True)
class DepthwiseScalar(PlaneKernel):
    """`pixels` of a row at a time, `stride` bytes of the plane apart; `rows` x `columns` taps are unrolled unless the
    weights are in a LOOP (then they are 1). The plane is loaded by `copies` of neighbouring pixels. `biased`: the
    weights are stored + 128. `packed`: records are packed channels, then their weights."""

    form: Form
    weights: Weights
    pixels: int
    stride: int
    rows: int
    columns: int
    copies: int
    biased: bool
    packed: bool = False

    @property
    def parameters(self) -> tuple[str, ...]:  # type: ignore[override]
        return FIELDS + (packed_records.PARAMETERS if self.packed else ())

    @property
    def lean(self) -> bool:
        return self.packed

    @property
    def name(self) -> str:
        taps = f"{self.weights.value}{self.rows}x{self.columns}s{self.stride}"
        steps = f"p{self.pixels}c{self.copies}{'b' * self.biased}{'z' * self.packed}"
        return f"depthwise_{self.core.tag}_{taps}{steps}_{self.form.tag}"

    def build(self, f: KernelFunction) -> None:
        self.fill_plane(f)
        buffer = f.alloca(I32, self.rows * self.columns) if self.weights is Weights.STACK else None

        def output_channel(_: Value, carried: list[Value]) -> list[Value]:
            record, output = carried
            self._output_channel(f, record, output, buffer)
            return [f.offset(record, f.integer("record_bytes")), f.offset(output, 1)]

        def channel(_: Value, carried: list[Value]) -> list[Value]:
            source, record, output = carried
            self._load_plane(f, source)
            record, output = f.loop(f.integer("multiplier"), output_channel, [record, output])
            return [f.offset(source, 1), record, output]

        f.loop(f.integer("channels"), channel, [f.pointer("input"), f.pointer("records"), f.pointer("output")])

    def _load_plane(self, f: KernelFunction, source: Value) -> None:
        pixel, width = f.integer("channels"), f.integer("input_width")

        def row(_: Value, carried: list[Value]) -> list[Value]:
            source, start = carried

            def columns(target: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
                (read,) = carried
                for u in range(self.copies):
                    f.split()
                    value = f.load_u8(read)
                    f.store_i8(f.xor(value, -128) if self.core.unsigned_inputs else value, target, u)
                    read = f.offset(read, pixel)
                return f.offset(target, self.copies), [read]

            _, (source,) = f.loop_until(f.offset(start, width), start, columns, [source])
            return [source, f.offset(start, f.integer("plane_row"))]

        interior = f.offset(f.pointer("plane"), f.integer("plane_interior"))
        f.loop(f.integer("input_height"), row, [source, interior])

    # -- one output channel ---------------------------------------------------------------------------------------

    def _output_channel(self, f: KernelFunction, record: Value, output: Value, buffer: Value | None) -> None:
        if self.packed:
            loaded = packed_records.emit(f, record)
            taps, bias = loaded.end, loaded.bias
            channel = ChannelValues(loaded.multiplier, loaded.rounding, loaded.exponent)
        else:
            taps = f.offset(record, 4 * WORDS)
            bias, channel = f.load(I32, record), load_channel(f, self.form, record)
        held: list[Value] = []
        if self.weights is Weights.REGISTERS:
            held = [f.load_s8(taps, i) for i in range(self.rows * self.columns)]
        elif buffer is not None:
            for i in range(self.rows * self.columns):
                f.store(f.load_s8(taps, i), buffer, 4 * i)
        alone = self.lean and self.pixels == 1
        pixel = f.const(0) if alone else f.integer("output_channels")
        steps = [f.integer("group_input"), f.integer("group_output")]
        requantized, squares = Requantizer(self.core, self.form).emitter(f), self.core.squares(f, self.lean)

        def row(_: Value, carried: list[Value]) -> list[Value]:
            base, output = carried
            end = f.offset(output, f.integer("output_row"))
            starts = [base]
            for _ in range(self.rows - 1):
                starts.append(f.offset(starts[-1], f.integer("tap_row")))

            def group(target: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
                *rows, step_input, step_output = carried
                if self.weights is Weights.LOOP:
                    sums = self._looped(f, rows[0], taps, bias, squares)
                else:
                    sums = self._unrolled(f, rows, taps, bias, held, buffer)
                place = target
                for p, total in enumerate(sums):
                    f.split()
                    f.store_i8(requantized(total, channel), place)
                    place = f.offset(place, pixel) if p + 1 < self.pixels else place
                return f.offset(target, step_output), [*(f.offset(r, step_input) for r in rows), *steps]

            first = steps if alone else [f.integer("first_input"), f.integer("first_output")]
            f.loop_until(end, output, group, [*starts, *first])
            return [f.offset(base, f.integer("row_advance")), end]

        # The loop ends at the output row behind the last: its pointer spares a counter.
        count = f.integer("output_height")
        f.loop(count, row, [f.pointer("plane"), output])

    def _unrolled(
        self, f: KernelFunction, rows: list[Value], taps: Value, bias: Value, held: list[Value], buffer: Value | None
    ) -> list[Value]:
        sums = [bias] * self.pixels
        for r in range(self.rows):
            f.split()
            if self.weights is Weights.ROW:
                held = [f.load_s8(taps, r * self.columns + k, volatile=self.core.pinned) for k in range(self.columns)]
            for column in range((self.pixels - 1) * self.stride + self.columns):
                uses = [
                    (p, column - p * self.stride)
                    for p in range(self.pixels)
                    if 0 <= column - p * self.stride < self.columns
                ]
                if not uses:
                    continue
                x = self.core.load_input(f, rows[r], column)
                for p, k in uses:
                    if buffer is not None:
                        factor = f.load_i32(buffer, 4 * (r * self.columns + k), volatile=self.core.pinned)
                    else:
                        factor = held[k if self.weights is Weights.ROW else r * self.columns + k]
                    sums[p] = f.add(sums[p], self.core.multiply(f, x, factor))
        return sums

    def _looped(self, f: KernelFunction, base: Value, taps: Value, bias: Value, squares: Value) -> list[Value]:
        def row(_: Value, carried: list[Value]) -> list[Value]:
            start, tap, *sums = carried

            def column(_: Value, carried: list[Value]) -> list[Value]:
                at, tap, *sums = carried
                factor = f.load_u8(tap) if self.biased else f.load_s8(tap)
                for p in range(self.pixels):
                    x = self.core.load_input(f, at, p * self.stride)
                    sums[p] = self.core.add_product(f, sums[p], self.core.factor(f, x, squares), factor)
                    if self.biased:
                        sums[p] = f.sub(sums[p], f.shl(x, 7))
                return [f.offset(at, f.integer("tap_column")), f.offset(tap, 1), *sums]

            _, tap, *sums = f.loop(f.integer("kernel_width"), column, [start, tap, *sums])
            return [f.offset(start, f.integer("tap_row")), tap, *sums]

        return f.loop(f.integer("kernel_height"), row, [base, taps, *([bias] * self.pixels)])[2:]
