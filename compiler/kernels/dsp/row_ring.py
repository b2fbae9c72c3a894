# SPDX-License-Identifier: Apache-2.0
"""A ring of input rows in scratch memory, padded left, right, above and below with the zero point (int8).

Kernels then run over windows without border code. Rows are `row_bytes` of the ring apart; the window's next row wraps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.codegen.builder import I32, PTR, Value
from compiler.kernels.kernel import SCRATCH, Argument, KernelFunction
from compiler.kernels.problems import Window

RING_PARAMETERS = (
    "ring",
    "ring_bytes",
    "ring_row_bytes",
    "ring_align",
    "ring_lead",
    "source_row_bytes",
    "source_row_first",
    "source_rows",
    "padding",
)


@dataclass(frozen=True)
class RingPlan:
    """Sizes of a ring for a window's int8 input: what the kernel is told, and the bytes it needs (at scratch 0).

    Windows start `align` bytes into a row, so that the interior is word-aligned. `copy_bytes` (16, 4 or 1) divides a
    source row: rows are copied in such steps.
    """

    rows: int
    row_bytes: int
    align: int
    copy_bytes: int

    @staticmethod
    def of(w: Window) -> RingPlan:
        lead = w.pad_left * w.input_channels
        align = -lead % 4
        row = align + lead + (w.input_width + w.pad_right) * w.input_channels
        source = w.input_width * w.input_channels
        copy = next(unit for unit in (16, 4, 1) if source % unit == 0)
        return RingPlan((w.kernel_height - 1) * w.dilation_height + 1, -(-row // 4) * 4, align, copy)

    @property
    def bytes(self) -> int:
        return self.rows * self.row_bytes

    def arguments(self, w: Window, zero_point: int) -> Sequence[Argument]:
        """The values of RING_PARAMETERS; `zero_point` as it is in the ring."""
        return (
            SCRATCH,
            self.bytes,
            self.row_bytes,
            self.align,
            self.align + w.pad_left * w.input_channels,
            w.input_width * w.input_channels,
            -w.pad_top,
            w.input_height,
            (zero_point & 255) * 0x01010101,
        )


class RowRing:
    """Emits the ring's code: its state (next source row, next slot) lives in the stack frame.

    `unsigned`: rows of aligned words become int8 + 128.
    """

    def __init__(self, f: KernelFunction, copy_bytes: int, unsigned: bool = False) -> None:
        self.f, self.copy_bytes, self.unsigned = f, copy_bytes, unsigned
        self.pointers, self.row = f.alloca(PTR, 2), f.alloca(I32)

    def start(self) -> None:
        """Fills the ring with padding; the first row to load is the topmost of the first window."""
        f = self.f
        ring, first = f.pointer("ring"), f.integer("source_row_first")
        self._fill(ring, f.integer("ring_bytes"))
        f.store(first, self.row)
        f.store(ring, self.pointers)
        f.store(f.offset(f.pointer("input"), f.mul(first, f.integer("source_row_bytes"))), self.pointers, 4)

    def load(self, rows: Value) -> None:
        """Loads the next `rows` rows (at least one)."""
        self.f.loop(rows, lambda _, __: self._load_one())

    def note_rows(self, rows: Value, count: int) -> None:
        """Stores the addresses of the ring's rows, the oldest first, in the frame at `rows`; all `count` are loaded."""
        f = self.f

        def note(_: Value, carried: list[Value]) -> list[Value]:
            row, place = carried
            f.store(row, place)
            return [self.wrap(f.offset(row, f.integer("ring_row_bytes"))), f.offset(place, 4)]

        f.loop(count, note, [f.load(PTR, self.pointers), rows])

    def wrap(self, address: Value) -> Value:
        """An address up to one ring behind the ring's end, brought back into the ring."""
        f = self.f
        end = f.offset(f.pointer("ring"), f.integer("ring_bytes"))
        back = f.offset(address, f.sub(0, f.integer("ring_bytes")))
        return f.builder.select(f.builder.icmp_unsigned("<", address, end), address, back)

    def _load_one(self) -> None:
        f = self.f
        slot, source, row = f.load(PTR, self.pointers), f.load(PTR, self.pointers, 4), f.load(I32, self.row)
        f.branch(
            f.compare_unsigned("<", row, f.integer("source_rows")),
            lambda: self._copy(source, f.offset(slot, f.integer("ring_lead"))),
            lambda: self._fill(slot, f.integer("ring_row_bytes")),
        )
        f.store(f.add(row, 1), self.row)
        f.store(f.offset(source, f.integer("source_row_bytes")), self.pointers, 4)
        f.store(self.wrap(f.offset(slot, f.integer("ring_row_bytes"))), self.pointers)

    def _copy(self, source: Value, target: Value) -> None:
        f, unit = self.f, self.copy_bytes

        def step(cursor: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            if unit == 1:
                f.store_i8(f.load_s8(cursor), carried[0])
            align = 4 if self.unsigned else 1
            for at in range(0, unit - 3, 4):
                word = f.load(I32, cursor, at, align=align)
                f.store(f.xor(word, -0x7F7F7F80) if self.unsigned else word, carried[0], at, align=align)
            return f.offset(cursor, unit), [f.offset(carried[0], unit)]

        f.loop_until(f.offset(source, f.integer("source_row_bytes")), source, step, [target])

    def _fill(self, target: Value, count: Value) -> None:
        f = self.f
        padding = f.integer("padding")

        def step(cursor: Value, _: list[Value]) -> tuple[Value, list[Value]]:
            f.store(padding, cursor)
            return f.offset(cursor, 4), []

        f.loop_until(f.offset(target, count), target, step)
