# SPDX-License-Identifier: Apache-2.0
"""Bilinear interpolation in height and width: each output pixel is a weighted mean of four input pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from compiler.codegen.builder import I32, I64, Value
from compiler.isa import Isa
from compiler.kernels.kernel import INPUT, OUTPUT, Constant, KernelCall, KernelFunction, Lowered
from compiler.kernels.portable.loops import Element, PortableKernel

FRACTION_BITS = 10
"""Integer weights are in steps of 2**-10."""


@dataclass(frozen=True)
class Tap:
    """Where an output row or column comes from: two input rows or columns and their weights."""

    first: int
    second: int
    first_weight: int | float
    second_weight: int | float


def bilinear(isa: Isa, element: Element, shape: Sequence[int], rows: Sequence[Tap], columns: Sequence[Tap]) -> Lowered:
    """The interpolation of input 0, of `shape` [batches, height, width, channels]. Integer weights give the reference's
    integer arithmetic, float weights its float arithmetic, in which integers are rounded half up."""
    batches, height, width, channels = shape
    pixel = channels * element.bytes
    kernel = BilinearKernel(isa, element, isinstance(rows[0].first_weight, float))
    tables = _table(rows, width * pixel), _table(columns, pixel)
    numbers = batches, len(rows), len(columns), channels, height * width * pixel
    return Lowered((KernelCall(kernel, (INPUT, OUTPUT, *tables, *numbers)),))


def _table(taps: Sequence[Tap], step: int) -> Constant:
    offsets = np.array([(tap.first * step, tap.second * step) for tap in taps], "<i4")
    is_float = isinstance(taps[0].first_weight, float)
    weights = np.array([(tap.first_weight, tap.second_weight) for tap in taps], "<f4" if is_float else "<i4")
    return Constant(np.hstack([offsets, weights.view("<i4")]).tobytes())


@dataclass(frozen=True)
class BilinearKernel(PortableKernel):
    """Rows and columns of the output by their tables of (first offset, second offset, first weight, second weight)."""

    element: Element
    by_floats: bool

    parameters: ClassVar[tuple[str, ...]] = (
        "input", "output", "rows", "columns", "batches", "height", "width", "channels", "batch_bytes",
    )  # fmt: skip

    @property
    def name(self) -> str:
        return f"bilinear_{self.element.value}{'_by_floats' if self.by_floats else ''}"

    def build(self, f: KernelFunction) -> None:
        def batch(_: Value, carried: list[Value]) -> list[Value]:
            source, target = carried

            def row(_: Value, carried: list[Value]) -> list[Value]:
                (target,) = f.loop(
                    f.integer("width"),
                    lambda _, c: self._pixel(f, source, carried[1], c),
                    [carried[0], f.pointer("columns")],
                )[:1]
                return [target, f.offset(carried[1], 16)]

            target = f.loop(f.integer("height"), row, [target, f.pointer("rows")])[0]
            return [f.offset(source, f.integer("batch_bytes")), target]

        f.loop(f.integer("batches"), batch, [f.pointer("input"), f.pointer("output")])

    def _pixel(self, f: KernelFunction, source: Value, row: Value, carried: list[Value]) -> list[Value]:
        target, column = carried
        sources = [
            f.offset(f.offset(source, f.load_i32(row, 4 * y)), f.load_i32(column, 4 * x))
            for x in (0, 1)
            for y in (0, 1)
        ]
        load = f.load_f32 if self.by_floats else f.load_i32
        heights, widths = ([load(table, 8), load(table, 12)] for table in (row, column))
        size = self.element.bytes

        def channel(_: Value, carried: list[Value]) -> list[Value]:
            cells = [self.element.load(f, pointer) for pointer in carried[1:]]
            mean = (
                self._by_floats(f, cells, heights, widths)
                if self.by_floats
                else self._by_integers(f, cells, heights, widths)
            )
            self.element.store(f, mean, carried[0])
            return [f.offset(pointer, size) for pointer in carried]

        return [f.loop(f.integer("channels"), channel, [target, *sources])[0], f.offset(column, 16)]

    def _by_integers(self, f: KernelFunction, cells: list[Value], heights: list[Value], widths: list[Value]) -> Value:
        left, right = (f.add(f.mul(cells[i], heights[0]), f.mul(cells[i + 1], heights[1])) for i in (0, 2))
        wide = I64 if self.element is Element.INT16 else I32
        if wide is I64:
            left, right, widths = f.sext(left, I64), f.sext(right, I64), [f.sext(w, I64) for w in widths]
        total = f.add(f.mul(left, widths[0]), f.mul(right, widths[1]))
        # Halves go away from zero.
        bits = 2 * FRACTION_BITS
        total = f.add(f.add(total, 1 << (bits - 1)), f.ashr(total, wide.width - 1))
        mean = f.ashr(total, bits)
        return f.trunc(mean, I32) if wide is I64 else mean

    def _by_floats(self, f: KernelFunction, cells: list[Value], heights: list[Value], widths: list[Value]) -> Value:
        is_float = self.element is Element.FLOAT32
        values = cells if is_float else [f.to_float(cell) for cell in cells]
        total: Value | None = None
        for i, value in enumerate(values):
            part = f.fmul(f.fmul(value, heights[i % 2]), widths[i // 2])
            total = part if total is None else f.fadd(total, part)
        return total if is_float else f.to_int(f.fadd(total, f.float(0.5)))
