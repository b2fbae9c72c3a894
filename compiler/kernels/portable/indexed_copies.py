# SPDX-License-Identifier: Apache-2.0
"""Copies whose place is computed at run time: rows chosen by indices, and a block put where a start says. What an
index names lies in the tensor whatever its value: it is clamped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from compiler.codegen.builder import I32, I64, Value
from compiler.isa import Isa
from compiler.kernels.kernel import OUTPUT, Argument, KernelCall, KernelFunction
from compiler.kernels.portable.copies import UNITS, Axis, CopyKernel, copy, copy_row
from compiler.kernels.portable.loops import Element, PortableKernel, lanes_of


@dataclass(frozen=True)
class Index:
    """An axis that is indexed: the last cell, and bytes from one to the next."""

    last: int
    step: int


@dataclass(frozen=True)
class Rows:
    """Rows of bytes in a tensor: the rows of each batch are chosen by `count` index entries, once for each of `outer`
    blocks `outer_step` bytes apart."""

    batches: int
    outer: int
    outer_step: int
    count: int
    row: int
    axes: tuple[Index, ...]


def gather(isa: Isa, source: Argument, indices: Argument, rows: Rows, index_bytes: int) -> KernelCall:
    """The call that copies the rows that `indices` choose one behind the other."""
    distances = (rows.row, rows.outer_step, *(axis.step for axis in rows.axes))
    unit = next(u for u in (4, 2, 1) if all(n % u == 0 for n in distances))
    kernel = GatherKernel(isa, UNITS[unit], lanes_of(rows.row // unit), len(rows.axes), index_bytes)
    numbers = rows.batches, rows.outer, rows.outer_step, rows.count, rows.row
    return KernelCall(kernel, (source, OUTPUT, indices, *numbers, *_numbers(rows.axes)))


def put(
    isa: Isa, source: Argument, starts: Argument, axes: Sequence[Axis], size: int, indexed: Sequence[Index], bytes: int
) -> KernelCall:
    """The call that copies elements of `size` bytes along `axes` into the output, from the cell that `starts` names."""
    call = copy(isa, source, OUTPUT, axes, size, [axis.step for axis in indexed])
    assert isinstance(call.kernel, CopyKernel)
    same = {field.name: getattr(call.kernel, field.name) for field in fields(CopyKernel)}
    kernel = PutKernel(**same, depth=len(indexed), index_bytes=bytes)
    return KernelCall(kernel, (*call.arguments, starts, *_numbers(indexed)))


def _numbers(axes: Sequence[Index]) -> list[int]:
    return [number for axis in axes for number in (axis.last, axis.step)]


def _names(depth: int) -> tuple[str, ...]:
    return tuple(f"{what}_index{axis}" for axis in range(depth) for what in ("last", "step"))


def _place(f: KernelFunction, pointer: Value, indices: Value, depth: int, index_bytes: int) -> Value:
    """The place in `pointer` that `depth` indices name."""
    for axis in range(depth):
        kind = I64 if index_bytes == 8 else I32
        index, last = f.load(kind, indices, axis * index_bytes), f.integer(f"last_index{axis}")
        index = f.minimum(f.maximum(index, 0), f.sext(last, kind) if kind is I64 else last)
        index = f.trunc(index, I32) if kind is I64 else index
        pointer = f.offset(pointer, f.mul(index, f.integer(f"step_index{axis}")))
    return pointer


@dataclass(frozen=True)
class GatherKernel(PortableKernel):
    """Rows by groups of `depth` indices of 4 or 8 bytes."""

    unit: Element
    lanes: int
    depth: int
    index_bytes: int

    @property
    def parameters(self) -> tuple[str, ...]:  # type: ignore[override]
        fixed = ("source", "target", "indices", "batches", "outer", "outer_step", "count", "row")
        return (*fixed, *_names(self.depth))

    @property
    def name(self) -> str:
        return f"gather_{self.unit.value}_x{self.lanes}_d{self.depth}_i{8 * self.index_bytes}"

    def build(self, f: KernelFunction) -> None:
        def batch(_: Value, carried: list[Value]) -> list[Value]:
            first = carried[2]

            def block(_: Value, carried: list[Value]) -> list[Value]:
                source, target, _end = carried

                def row(_: Value, carried: list[Value]) -> list[Value]:
                    target, indices = carried
                    chosen = _place(f, source, indices, self.depth, self.index_bytes)
                    target = copy_row(f, self.unit, self.lanes, chosen, target, f.integer("row"))
                    return [target, f.offset(indices, self.depth * self.index_bytes)]

                target, end = f.loop(f.integer("count"), row, [target, first])
                return [f.offset(source, f.integer("outer_step")), target, end]

            return f.loop(f.integer("outer"), block, carried)

        f.loop(f.integer("batches"), batch, [f.pointer(name) for name in ("source", "target", "indices")])


@dataclass(frozen=True)
class PutKernel(CopyKernel):
    """A copy whose target starts where indices say."""

    depth: int
    index_bytes: int

    @property
    def parameters(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*super().parameters, "starts", *_names(self.depth))

    @property
    def name(self) -> str:
        return f"put_d{self.depth}_i{8 * self.index_bytes}_{super().name}"

    def build(self, f: KernelFunction) -> None:
        target = _place(f, f.pointer("target"), f.pointer("starts"), self.depth, self.index_bytes)
        self._nest(f, len(self.tables) - 1, f.pointer("source"), target)
