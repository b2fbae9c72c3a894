# SPDX-License-Identifier: Apache-2.0
"""Strided copies and fills: what moves elements without looking at them (PAD, CONCATENATION, PACK, STRIDED_SLICE)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from compiler.codegen.builder import Value
from compiler.isa import Isa
from compiler.kernels.kernel import Argument, KernelCall, KernelFunction, Place
from compiler.kernels.portable import Element, PortableKernel, lanes_of

LOOPS = 5
"""The most merged axes of a copy."""
UNITS = {1: Element.INT8, 2: Element.INT16, 4: Element.INT32}


@dataclass(frozen=True)
class Axis:
    """An axis of a copy: cells, and bytes from one to the next in the source and in the target."""

    count: int
    source: int
    target: int


def merged(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """The fewest axes for the same copy, outermost first; at least one."""
    found: list[Axis] = []
    for axis in axes:
        if axis.count == 1:
            continue
        outer = found[-1] if found else None
        if outer and (outer.source, outer.target) == (axis.source * axis.count, axis.target * axis.count):
            found[-1] = Axis(outer.count * axis.count, axis.source, axis.target)
        else:
            found.append(axis)
    return tuple(found) or (Axis(1, 0, 0),)


@dataclass(frozen=True)
class CopyKernel(PortableKernel):
    """Copies units of 1, 2 or 4 bytes over `rank` nested loops; `packed`: both sides are contiguous innermost."""

    unit: Element
    rank: int
    lanes: int
    packed: bool

    parameters: ClassVar[tuple[str, ...]] = (
        "source", "target", *(f"{what}{axis}" for axis in range(LOOPS) for what in ("count", "source", "target")),
    )  # fmt: skip

    @property
    def name(self) -> str:
        return f"copy_{self.unit.value}_r{self.rank}_x{self.lanes}{'' if self.packed else '_strided'}"

    def build(self, f: KernelFunction) -> None:
        self._nest(f, self.rank - 1, f.pointer("source"), f.pointer("target"))

    def _nest(self, f: KernelFunction, axis: int, source: Value, target: Value) -> None:
        if axis == 0 and self.packed:
            self._row(f, source, target)
            return
        steps = f.integer(f"source{axis}"), f.integer(f"target{axis}")

        def body(_: Value, carried: list[Value]) -> list[Value]:
            if axis == 0:
                self.unit.store(f, self.unit.load(f, carried[0]), carried[1])
            else:
                self._nest(f, axis - 1, carried[0], carried[1])
            return [f.offset(pointer, step) for pointer, step in zip(carried, steps, strict=True)]

        f.loop(f.integer(f"count{axis}"), body, [source, target])

    def _row(self, f: KernelFunction, source: Value, target: Value) -> None:
        size = self.unit.bytes

        def body(target: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            values = [self.unit.load(f, carried[0], lane * size) for lane in range(self.lanes)]
            for lane, value in enumerate(values):
                self.unit.store(f, value, target, lane * size)
            return f.offset(target, self.lanes * size), [f.offset(carried[0], self.lanes * size)]

        f.loop_until(f.offset(target, f.integer("count0")), target, body, [source])


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


def copy(isa: Isa, source: Argument, target: Place, axes: Sequence[Axis], element_bytes: int) -> KernelCall:
    """The call that copies elements along `axes` (outermost first, all counts positive). Buffers are aligned to 16
    bytes, so a place is aligned as its offset is; wider units are used where everything allows."""
    loops = merged(axes)
    inner = loops[-1]
    packed = inner.source == inner.target == element_bytes or inner == Axis(1, 0, 0)
    start = source.offset if isinstance(source, Place) else 0
    rest = [start, target.offset, *(s for a in loops[: -1 if packed else None] for s in (a.source, a.target))]
    unit = element_bytes
    if packed:
        row = inner.count * element_bytes
        unit = next(u for u in (4, 2, 1) if all(n % u == 0 for n in (row, *rest)))
        kernel = CopyKernel(isa, UNITS[unit], len(loops), lanes_of(row // unit), True)
        numbers = [row, 0, 0]
    else:
        kernel = CopyKernel(isa, UNITS[unit], len(loops), 1, False)
        numbers = [inner.count, inner.source, inner.target]
    for axis in reversed(loops[:-1]):
        numbers += [axis.count, axis.source, axis.target]
    return KernelCall(kernel, (source, target, *numbers, *[0] * (3 * LOOPS - len(numbers))))


def fill(isa: Isa, target: Place, count: int, value: int, element_bytes: int) -> KernelCall:
    """The call that fills `count` elements with the bits of `value`; the target starts on 4 bytes."""
    size, unit = count * element_bytes, element_bytes
    value &= (1 << 8 * unit) - 1
    while unit < 4 and size % (2 * unit) == 0:
        value |= value << 8 * unit
        unit *= 2
    kernel = FillKernel(isa, UNITS[unit], lanes_of(size // unit))
    return KernelCall(kernel, (target, size, value - (1 << 32) if value >> 31 else value))
