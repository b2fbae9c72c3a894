# SPDX-License-Identifier: Apache-2.0
"""Convolutions whose weights are code, for cores without multiplication: additions and shifts, no loop over taps."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import ClassVar

from compiler.codegen.builder import I32, PTR, Value
from compiler.kernels.dsp.row_ring import RING_PARAMETERS, RowRing
from compiler.kernels.kernel import CompileOptions, Kernel, KernelFunction
from compiler.kernels.scalar.shift_add import ShiftRescale, emit_sum, sum_steps

STEP_BYTES = 2.7
"""Code of an instruction: most have a compressed form."""


@dataclass(frozen=True)
class TapGroup:
    """Taps, as (kernel row, bytes behind the window's start in it), that are in registers together, and the outputs
    that read them: channels with the taps' weights."""

    taps: tuple[tuple[int, int], ...]
    outputs: tuple[tuple[int, tuple[int, ...]], ...]

    @property
    def steps(self) -> int:
        """Instructions: row pointers, loads, and each output's sum with its load, addition and store."""
        rows = len({row for row, _ in self.taps})
        return 2 * rows + len(self.taps) + sum(3 + sum_steps(weights) for _, weights in self.outputs)


@dataclass(frozen=True)
class CodedConv(Kernel):
    """One pixel at a time, `pixel_bytes` apart in the input; sums are in scratch memory. Without a `ring` windows have
    one row and are read from the input itself, all of which is one row."""

    groups: tuple[TapGroup, ...]
    rescales: tuple[ShiftRescale, ...]
    kernel_rows: int
    pixel_bytes: int
    copy_bytes: int
    ring: bool

    parameters: ClassVar[tuple[str, ...]] = (
        "input",
        "output",
        "biases",
        "sums",  # scratch: a word an output channel
        "output_rows",
        "output_row",  # bytes
        "row_stride",  # input rows between output rows
        *RING_PARAMETERS,
    )
    options: ClassVar[CompileOptions] = CompileOptions(
        flags=("-disable-cgp", "-disable-machine-cse", "-enable-misched=false")
    )

    @property
    def name(self) -> str:
        facts = repr((self.groups, self.rescales, self.kernel_rows, self.pixel_bytes, self.copy_bytes, self.ring))
        return f"coded_{hashlib.sha256(facts.encode()).hexdigest()[:16]}"

    @property
    def steps(self) -> int:
        """Instructions of a pixel."""
        outputs = sum(3 + rescale.steps for rescale in self.rescales)
        return sum(group.steps for group in self.groups) + outputs + 8

    @property
    def code_bytes(self) -> int:
        return round(STEP_BYTES * self.steps) + 100

    def build(self, f: KernelFunction) -> None:
        rows = f.alloca(PTR, self.kernel_rows)
        if not self.ring:
            f.store(f.pointer("input"), rows)
            self._row(f, rows, f.const(0), f.pointer("output"))
            return
        ring = RowRing(f, self.copy_bytes)
        ring.start()

        def row(_: Value, carried: list[Value]) -> list[Value]:
            count, output = carried
            ring.load(count)
            ring.note_rows(rows, self.kernel_rows)
            self._row(f, rows, f.integer("ring_align"), output)
            return [f.integer("row_stride"), f.offset(output, f.integer("output_row"))]

        f.loop(f.integer("output_rows"), row, [f.const(self.kernel_rows), f.pointer("output")])

    def _row(self, f: KernelFunction, rows: Value, at: Value, output: Value) -> None:
        def pixel(target: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            (at,) = carried
            self._sums(f, rows, at)
            sums = f.pointer("sums")
            for channel, rescale in enumerate(self.rescales):
                f.split()
                f.store_i8(rescale.emit(f, f.load_i32(sums, 4 * channel)), target, channel)
            return f.offset(target, len(self.rescales)), [f.add(at, self.pixel_bytes)]

        f.loop_until(f.offset(output, f.integer("output_row")), output, pixel, [at])

    def _sums(self, f: KernelFunction, rows: Value, at: Value) -> None:
        started: set[int] = set()
        biases, sums = f.pointer("biases"), f.pointer("sums")
        for group in self.groups:
            starts = {row: f.offset(f.load(PTR, rows, 4 * row), at) for row in sorted({row for row, _ in group.taps})}
            inputs = [f.load_s8(starts[row], offset, volatile=True) for row, offset in group.taps]
            for channel, weights in group.outputs:
                f.split()
                total = f.load(I32, sums if channel in started else biases, 4 * channel, volatile=True)
                f.store_volatile(f.add(total, emit_sum(f, weights, inputs)), f.offset(sums, 4 * channel))
                started.add(channel)
