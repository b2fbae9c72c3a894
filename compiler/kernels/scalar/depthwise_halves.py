# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution on scalar cores with two outputs a multiplication.

A channel's plane holds words lo + hi * 2**16 of an input in the upper half of the output's rows and of the one below it
in the lower half. A word times a weight is both products; sums of them stay apart while the absolute weights of a group
of taps sum up to 255 at most: with 2**15 added, such a sum's upper half is exact, and the rest is the lower sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from compiler.codegen.builder import Value
from compiler.kernels.kernel import KernelFunction
from compiler.kernels.scalar.plane import PlaneKernel
from compiler.kernels.scalar.requantize import REQUANTIZE_FIELDS, WORDS, Form, Requantizer, load_channel

LIMIT = 255
"""The greatest sum of absolute weights in a group: |sum of both products' halves| <= 128 * LIMIT < 2**15."""
HALF = 1 << 15
"""What each group's sum starts from."""
PHASE = 3
"""Words of a run of plane rows: how many there are, and for each half -1 if they are in the input, 0 in its padding."""
HEAD = 2 + WORDS
"""Words of a record in front of its weights: the channel, the lower sum's correction, then the channel's WORDS."""


class Held(Enum):
    """Which weights are in registers; the others are loaded where they are used."""

    ALL = "a"
    ROW = "r"
    """A kernel row's at a time."""
    NONE = "n"


@dataclass(frozen=True)
class DepthwiseHalves(PlaneKernel):
    """`pixels` of a row at a time, which they divide, `stride` words of the plane apart. `group`: so many taps, one
    behind the other, are summed before halves are taken apart. The plane is made `copies` words at a time."""

    form: Form
    pixels: int
    stride: int
    rows: int
    columns: int
    group: int
    copies: int
    held: Held

    parameters: ClassVar[tuple[str, ...]] = (
        "input",
        "output",
        "records",  # of the channels that are computed: HEAD words, then the weights as words
        "records_bytes",
        "channels",  # of the input: bytes between its pixels
        "padding",  # a byte of padding
        "lower_input",  # where the plane's lower half begins in the input
        "phases",  # runs of plane rows, PHASE words each
        "phases_bytes",
        "plane",  # scratch; its rows' pitch, its bytes, the offset of the input in it, and the input's bytes in a row
        "plane_row",
        "plane_bytes",
        "plane_interior",
        "interior_bytes",
        "fill",  # the padding in both halves
        "output_rows",  # of a half
        "output_row",  # bytes of an output row
        "lower_output",  # bytes from the upper half to the lower one
        "row_advance",  # plane bytes between output rows
        *REQUANTIZE_FIELDS,
    )

    @property
    def taps(self) -> int:
        return self.rows * self.columns

    @property
    def name(self) -> str:
        taps = f"{self.rows}x{self.columns}s{self.stride}g{self.group}"
        return f"depthwise_halves_{self.core.tag}_{taps}p{self.pixels}c{self.copies}{self.held.value}_{self.form.tag}"

    def build(self, f: KernelFunction) -> None:
        self.fill_plane(f)

        def channel(record: Value, _: list[Value]) -> tuple[Value, list[Value]]:
            offset = f.load_i32(record)
            self._load_plane(f, f.offset(f.pointer("input"), offset))
            self._outputs(f, record, f.offset(f.pointer("output"), offset))
            return f.offset(record, 4 * (HEAD + self.taps)), []

        records = f.pointer("records")
        f.loop_until(f.offset(records, f.integer("records_bytes")), records, channel)

    # -- the plane ------------------------------------------------------------------------------------------------

    def _load_plane(self, f: KernelFunction, source: Value) -> None:
        def phase(at: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            start, *sources = carried
            masks = [f.load_i32(at, 4), f.load_i32(at, 8)]
            inside = [f.compare("!=", mask, 0) for mask in masks]
            reads = [
                f.builder.select(there, source, f.pointer("padding"))
                for there, source in zip(inside, sources, strict=True)
            ]
            start, *ends = self._load_rows(f, f.load_i32(at), start, reads, masks)
            # A half whose rows are in the input continues where its last one ended.
            sources = [f.builder.select(*three) for three in zip(inside, ends, sources, strict=True)]
            return f.offset(at, 4 * PHASE), [start, *sources]

        phases, interior = f.pointer("phases"), f.offset(f.pointer("plane"), f.integer("plane_interior"))
        lower = f.offset(source, f.integer("lower_input"))
        f.loop_until(f.offset(phases, f.integer("phases_bytes")), phases, phase, [interior, source, lower])

    def _load_rows(
        self, f: KernelFunction, count: Value, start: Value, reads: list[Value], masks: list[Value]
    ) -> list[Value]:
        steps = [f.and_(mask, f.integer("channels")) for mask in masks]

        def columns(target: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            for u in range(self.copies):
                f.split()
                upper, lower = (f.load_s8(read) for read in carried)
                f.store(f.add(upper, f.shl(lower, 16)), target, 4 * u)
                carried = [f.offset(read, step) for read, step in zip(carried, steps, strict=True)]
            return f.offset(target, 4 * self.copies), carried

        def row(_: Value, carried: list[Value]) -> list[Value]:
            start, *reads = carried
            _, reads = f.loop_until(f.offset(start, f.integer("interior_bytes")), start, columns, reads)
            return [f.offset(start, f.integer("plane_row")), *reads]

        return f.loop(count, row, [start, *reads])

    # -- one channel's outputs ------------------------------------------------------------------------------------

    def _outputs(self, f: KernelFunction, record: Value, output: Value) -> None:
        correction, bias = f.load_i32(record, 4), f.load_i32(record, 8)
        channel = load_channel(f, self.form, record, 8)
        taps = f.offset(record, 4 * HEAD)
        held = [f.load_i32(taps, 4 * i) for i in range(self.taps)] if self.held is Held.ALL else []
        pixel, lower = f.integer("channels"), f.integer("lower_output")
        output_of = Requantizer(self.core, self.form).emitter(f)

        def row(_: Value, carried: list[Value]) -> list[Value]:
            base, output = carried
            end = f.offset(output, f.integer("output_row"))
            starts = [base]
            for _ in range(self.rows - 1):
                starts.append(f.offset(starts[-1], f.integer("plane_row")))

            def group(target: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
                for sums in self._sums(f, carried, taps, held, bias, correction):
                    for total, at in zip(sums, (target, f.offset(target, lower)), strict=True):
                        f.split()
                        f.store_i8(output_of(total, channel), at)
                    target = f.offset(target, pixel)
                return target, [f.offset(r, 4 * self.pixels * self.stride) for r in carried]

            f.loop_until(end, output, group, starts)
            return [f.offset(base, f.integer("row_advance")), end]

        f.loop(f.integer("output_rows"), row, [f.pointer("plane"), output])

    def _sums(
        self, f: KernelFunction, rows: list[Value], taps: Value, held: list[Value], bias: Value, correction: Value
    ) -> list[tuple[Value, Value]]:
        """The upper and the lower half's accumulator of each pixel."""
        running: list[Value | None] = [None] * self.pixels
        wholes, lowers = [correction] * self.pixels, [bias] * self.pixels
        for r in range(self.rows):
            f.split()
            if self.held is Held.ROW:
                held = [self._weight(f, taps, r * self.columns + k) for k in range(self.columns)]
            for column in range((self.pixels - 1) * self.stride + self.columns):
                uses = [p for p in range(self.pixels) if 0 <= column - p * self.stride < self.columns]
                x = f.load_i32(rows[r], 4 * column, volatile=self.core.pinned) if uses else None
                for p in uses:
                    tap = r * self.columns + column - p * self.stride
                    factor = held[tap % len(held)] if held else self._weight(f, taps, tap)
                    total = running[p]
                    running[p] = total = f.add(f.mul(factor, x), HALF if total is None else total)
                    if (tap + 1) % self.group == 0 or tap + 1 == self.taps:
                        wholes[p] = f.add(wholes[p], total)
                        lowers[p] = f.add(lowers[p], f.ashr(total, 16))
                        running[p] = None
        return [(f.sub(whole, f.shl(low, 16)), low) for whole, low in zip(wholes, lowers, strict=True)]

    def _weight(self, f: KernelFunction, taps: Value, tap: int) -> Value:
        return f.load_i32(taps, 4 * tap, volatile=self.core.pinned)
