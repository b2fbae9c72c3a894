# SPDX-License-Identifier: Apache-2.0
"""Copies along axes, and fills: what moves elements without looking at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from compiler.codegen.builder import Value
from compiler.isa import Isa
from compiler.kernels.kernel import Argument, Constant, KernelCall, KernelFunction, Place
from compiler.kernels.portable.loops import Element, PortableKernel, lanes_of

UNITS = {1: Element.INT8, 2: Element.INT16, 4: Element.INT32}


@dataclass(frozen=True)
class Axis:
    """An axis of a copy: cells, and bytes from one to the next in the source and in the target. Where the cells are in
    no even steps, `table` has the (source, target) offsets in bytes of each, and the steps are 0."""

    count: int
    source: int
    target: int
    table: tuple[tuple[int, int], ...] = ()

    def times(self, size: int) -> Axis:
        """The axis with its units made `size` times as large."""
        table = tuple((source * size, target * size) for source, target in self.table)
        return Axis(self.count, self.source * size, self.target * size, table)

    @property
    def swapped(self) -> Axis:
        """The axis of the copy from the target to the source."""
        return Axis(self.count, self.target, self.source, tuple((target, source) for source, target in self.table))

    @property
    def offsets(self) -> tuple[int, ...]:
        """Every distance that occurs."""
        return (self.source, self.target, *(offset for cell in self.table for offset in cell))


def merged(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """The fewest axes for the same copy, outermost first; at least one."""
    found: list[Axis] = []
    for axis in axes:
        if axis.count == 1 and not axis.table:
            continue
        outer = found[-1] if found else None
        even = outer and not outer.table and not axis.table
        if outer and even and (outer.source, outer.target) == (axis.source * axis.count, axis.target * axis.count):
            found[-1] = Axis(outer.count * axis.count, axis.source, axis.target)
        else:
            found.append(axis)
    return tuple(found) or (Axis(1, 0, 0),)


@dataclass(frozen=True)
class CopyKernel(PortableKernel):
    """Copies units of 1, 2 or 4 bytes over nested loops. `tables` has an entry for each loop, innermost first: whether
    its cells are where a table says. `packed`: both sides are contiguous innermost."""

    unit: Element
    tables: tuple[bool, ...]
    lanes: int
    packed: bool

    @property
    def parameters(self) -> tuple[str, ...]:  # type: ignore[override]
        names = ["source", "target"]
        for axis, table in enumerate(self.tables):
            names += (
                [f"count{axis}", f"table{axis}"] if table else [f"{w}{axis}" for w in ("count", "source", "target")]
            )
        return tuple(names)

    @property
    def name(self) -> str:
        kinds = "".join("t" if table else "s" for table in self.tables)
        return f"copy_{self.unit.value}_{kinds}_x{self.lanes}{'' if self.packed else '_strided'}"

    def build(self, f: KernelFunction) -> None:
        self._nest(f, len(self.tables) - 1, f.pointer("source"), f.pointer("target"))

    def _nest(self, f: KernelFunction, axis: int, source: Value, target: Value) -> None:
        if axis < 0:
            self.unit.store(f, self.unit.load(f, source), target)
        elif axis == 0 and self.packed:
            copy_row(f, self.unit, self.lanes, source, target, f.integer("count0"))
        elif self.tables[axis]:
            self._by_table(f, axis, source, target)
        else:
            self._by_steps(f, axis, source, target)

    def _by_steps(self, f: KernelFunction, axis: int, source: Value, target: Value) -> None:
        steps = f.integer(f"source{axis}"), f.integer(f"target{axis}")

        def body(_: Value, carried: list[Value]) -> list[Value]:
            self._nest(f, axis - 1, carried[0], carried[1])
            return [f.offset(pointer, step) for pointer, step in zip(carried, steps, strict=True)]

        f.loop(f.integer(f"count{axis}"), body, [source, target])

    def _by_table(self, f: KernelFunction, axis: int, source: Value, target: Value) -> None:
        def body(_: Value, carried: list[Value]) -> list[Value]:
            cell = carried[0]
            self._nest(f, axis - 1, f.offset(source, f.load_i32(cell)), f.offset(target, f.load_i32(cell, 4)))
            return [f.offset(cell, 8)]

        f.loop(f.integer(f"count{axis}"), body, [f.pointer(f"table{axis}")])


def copy_row(f: KernelFunction, unit: Element, lanes: int, source: Value, target: Value, count: Value) -> Value:
    """Emits the copy of `count` contiguous bytes, `lanes` units a step; returns the target behind them."""
    size = unit.bytes

    def body(target: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
        values = [unit.load(f, carried[0], lane * size) for lane in range(lanes)]
        for lane, value in enumerate(values):
            unit.store(f, value, target, lane * size)
        return f.offset(target, lanes * size), [f.offset(carried[0], lanes * size)]

    return f.loop_until(f.offset(target, count), target, body, [source])[0]


@dataclass(frozen=True)
class FillKernel(PortableKernel):
    """Fills contiguous units with a value."""

    unit: Element
    lanes: int

    parameters: ClassVar[tuple[str, ...]] = ("target", "bytes", "value")

    @property
    def name(self) -> str:
        return f"fill_{self.unit.value}_x{self.lanes}"

    def build(self, f: KernelFunction) -> None:
        target, value, size = f.pointer("target"), f.integer("value"), self.unit.bytes

        def body(cursor: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            for lane in range(self.lanes):
                self.unit.store(f, value, cursor, lane * size)
            return f.offset(cursor, self.lanes * size), carried

        f.loop_until(f.offset(target, f.integer("bytes")), target, body)


def copy(
    isa: Isa, source: Argument, target: Place, axes: Sequence[Axis], element_bytes: int, shifts: Sequence[int] = ()
) -> KernelCall:
    """The call that copies elements along `axes` (outermost first, all counts positive). Buffers are aligned to 16
    bytes, so a place is aligned as its offset is; wider units are used where everything allows. `shifts` are distances
    of whose multiples the places may be moved."""
    if element_bytes not in UNITS:
        axes, element_bytes = [*axes, Axis(element_bytes // 4, 4, 4)], 4
    loops = merged(axes)
    inner = loops[-1]
    packed = not inner.table and (inner.source == inner.target == element_bytes or inner == Axis(1, 0, 0))
    start = source.offset if isinstance(source, Place) else 0
    rest = [
        start,
        target.offset,
        *shifts,
        *(offset for axis in loops[: -1 if packed else None] for offset in axis.offsets),
    ]
    unit, lanes = element_bytes, 1
    if packed:
        row = inner.count * element_bytes
        unit = next(u for u in (4, 2, 1) if all(n % u == 0 for n in (row, *rest)))
        lanes = lanes_of(row // unit)
        loops = (*loops[:-1], replace(inner, count=row))
    arguments: list[Argument] = [source, target]
    for axis in reversed(loops):
        arguments.append(axis.count)
        if axis.table:
            arguments.append(Constant(np.array(axis.table, "<i4").tobytes()))
        else:
            arguments += [axis.source, axis.target]
    kernel = CopyKernel(isa, UNITS[unit], tuple(bool(axis.table) for axis in reversed(loops)), lanes, packed)
    return KernelCall(kernel, tuple(arguments))


def copy_bytes(isa: Isa, source: Argument, target: Place, count: int) -> KernelCall:
    """The call that copies a whole tensor of `count` bytes."""
    return copy(isa, source, target, [Axis(count, 1, 1)], 1)


def fill(isa: Isa, target: Place, count: int, value: int, element_bytes: int) -> KernelCall:
    """The call that fills `count` elements with the bits of `value`; the target starts on 4 bytes."""
    size, unit = count * element_bytes, element_bytes
    value &= (1 << 8 * unit) - 1
    while unit < 4 and size % (2 * unit) == 0:
        value |= value << 8 * unit
        unit *= 2
    kernel = FillKernel(isa, UNITS[unit], lanes_of(size // unit))
    return KernelCall(kernel, (target, size, value - (1 << 32) if value >> 31 else value))


def set_bytes(isa: Isa, target: Place, data: bytes) -> KernelCall:
    """The call that gives memory, which starts on 4 bytes, these bytes."""
    for unit in (1, 2, 4):
        if data == data[:unit] * (len(data) // unit):
            return fill(isa, target, len(data) // unit, int.from_bytes(data[:unit], "little"), unit)
    return copy_bytes(isa, Constant(data), target, len(data))
