# SPDX-License-Identifier: Apache-2.0
"""Walks along one axis of a tensor: the position of the largest element, running sums, the largest few."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from compiler.codegen.builder import I64, Value
from compiler.isa import Isa
from compiler.kernels.kernel import INPUT, OUTPUT, KernelCall, KernelFunction, Lowered, Place, Role
from compiler.kernels.portable.loops import Element, PortableKernel


@dataclass(frozen=True)
class Lines:
    """A tensor as lines along an axis: `outer` blocks of `inner` neighbouring lines of `count` elements."""

    outer: int
    count: int
    inner: int


def lines(shape: Sequence[int], axis: int) -> Lines:
    """The lines along `axis` (0 <= axis < rank)."""
    return Lines(prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))


@dataclass(frozen=True)
class AlongKernel(PortableKernel):
    """The walk over lines; `line` handles one. Bytes: `step` along a line, `source_skip` and `target_skip` from the
    end of a block's neighbouring lines to the next block."""

    element: Element

    parameters: ClassVar[tuple[str, ...]] = (
        "input", "output", "outer", "inner", "count", "step", "source_skip", "target_skip",
    )  # fmt: skip

    @property
    def target_bytes(self) -> int:
        """Bytes from a line's output to its neighbour's."""
        return self.element.bytes

    @abstractmethod
    def line(self, f: KernelFunction, source: Value, target: Value) -> None: ...

    def build(self, f: KernelFunction) -> None:
        def inner(_: Value, carried: list[Value]) -> list[Value]:
            source, target = carried
            self.line(f, source, target)
            return [f.offset(source, self.element.bytes), f.offset(target, self.target_bytes)]

        def outer(_: Value, carried: list[Value]) -> list[Value]:
            source, target = f.loop(f.integer("inner"), inner, carried)
            return [f.offset(source, f.integer("source_skip")), f.offset(target, f.integer("target_skip"))]

        f.loop(f.integer("outer"), outer, [f.pointer("input"), f.pointer("output")])


@dataclass(frozen=True)
class ArgKernel(AlongKernel):
    """The position of the first largest (or smallest) element of each line, as int32 or int64."""

    largest: bool
    index: Element

    @property
    def name(self) -> str:
        return f"arg_{'max' if self.largest else 'min'}_{self.element.value}_{self.index.value}"

    @property
    def target_bytes(self) -> int:
        return self.index.bytes

    def line(self, f: KernelFunction, source: Value, target: Value) -> None:
        compare = f.fcompare if self.element is Element.FLOAT32 else f.compare

        def cell(position: Value, carried: list[Value]) -> list[Value]:
            pointer, best, where = carried
            value = self.element.load(f, pointer)
            better = compare(">" if self.largest else "<", value, best)
            ahead = f.offset(pointer, f.integer("step"))
            return [ahead, f.select(better, value, best), f.select(better, position, where)]

        *_, where = f.loop(f.integer("count"), cell, [source, self.element.load(f, source), f.const(0)])
        self.index.store(f, f.sext(where, I64) if self.index is Element.INT64 else where, target)


@dataclass(frozen=True)
class RunningSumKernel(AlongKernel):
    """The sum of the elements up to each; `exclusive`: without itself; `reverse`: from the end on."""

    exclusive: bool
    reverse: bool

    parameters: ClassVar[tuple[str, ...]] = (*AlongKernel.parameters, "start")

    @property
    def name(self) -> str:
        kind = f"{'_exclusive' if self.exclusive else ''}{'_reverse' if self.reverse else ''}"
        return f"running_sum_{self.element.value}{kind}"

    def first(self, f: KernelFunction) -> Value:
        """The sum before the first element."""
        if self.element is Element.FLOAT32:
            return f.float(0.0)
        return f.const(0, I64) if self.element is Element.INT64 else f.const(0)

    def following(self, f: KernelFunction, total: Value, value: Value) -> Value:
        return f.fadd(total, value) if self.element is Element.FLOAT32 else f.add(total, value)

    def finished(self, f: KernelFunction, total: Value) -> Value:
        """The output for a sum."""
        return total

    def line(self, f: KernelFunction, source: Value, target: Value) -> None:
        def cell(_: Value, carried: list[Value]) -> list[Value]:
            read, write, total = carried
            following = self.following(f, total, self.element.load(f, read))
            self.element.store(f, self.finished(f, total if self.exclusive else following), write)
            step = f.integer("step")
            return [f.offset(read, step), f.offset(write, step), following]

        start = f.integer("start")
        f.loop(f.integer("count"), cell, [f.offset(source, start), f.offset(target, start), self.first(f)])


@dataclass(frozen=True)
class TopKernel(PortableKernel):
    """The largest `k` elements of each row in descending order, of equal ones the first, and their positions: for each
    place, the best element that comes behind the one before."""

    element: Element

    parameters: ClassVar[tuple[str, ...]] = ("input", "values", "positions", "rows", "count", "k")

    @property
    def name(self) -> str:
        return f"top_{self.element.value}"

    def _key(self, f: KernelFunction, pointer: Value) -> Value:
        """An i32 in the order of the elements."""
        value = self.element.load(f, pointer)
        if self.element is not Element.FLOAT32:
            return value
        # The sum makes -0 equal to 0.
        bits = f.bits(f.fadd(value, f.float(0.0)))
        return f.xor(bits, f.lshr(f.ashr(bits, 31), 1))

    def build(self, f: KernelFunction) -> None:
        size = self.element.bytes

        def row(_: Value, carried: list[Value]) -> list[Value]:
            source, values, positions = carried

            def place(_: Value, state: list[Value]) -> list[Value]:
                values, positions, last_key, last = state

                def cell(position: Value, found: list[Value]) -> list[Value]:
                    pointer, key, where = found
                    candidate = self._key(f, pointer)
                    later = f.and_(f.compare("==", candidate, last_key), f.compare(">", position, last))
                    behind = f.or_(f.compare("<", candidate, last_key), later)
                    first = f.or_(f.compare("<", where, 0), f.compare(">", candidate, key))
                    better = f.and_(behind, first)
                    ahead = f.offset(pointer, size)
                    return [ahead, f.select(better, candidate, key), f.select(better, position, where)]

                _, key, where = f.loop(f.integer("count"), cell, [source, f.const(0), f.const(-1)])
                best = f.offset(source, f.mul(where, size))
                self.element.store(f, self.element.load(f, best), values)
                f.store(where, positions)
                return [f.offset(values, size), f.offset(positions, 4), key, where]

            start = [values, positions, f.const((1 << 31) - 1), f.const(-1)]
            values, positions, *_ = f.loop(f.integer("k"), place, start)
            return [f.offset(source, f.mul(f.integer("count"), size)), values, positions]

        f.loop(f.integer("rows"), row, [f.pointer("input"), f.pointer("values"), f.pointer("positions")])


def arg(isa: Isa, along: Lines, element: Element, index: Element, largest: bool) -> Lowered:
    """Positions of the largest or smallest elements."""
    step = along.inner * element.bytes
    skip = (along.count - 1) * step
    call = KernelCall(
        ArgKernel(isa, element, largest, index), (INPUT, OUTPUT, along.outer, along.inner, along.count, step, skip, 0)
    )
    return Lowered((call,))


def running_sum(kernel: RunningSumKernel, along: Lines, numbers: tuple[int, ...] = ()) -> Lowered:
    """Running sums; `numbers` are what the kernel's parameters have behind those of a RunningSumKernel."""
    step = along.inner * kernel.element.bytes
    skip = (along.count - 1) * step
    ahead, start = (-step, skip) if kernel.reverse else (step, 0)
    walk = (INPUT, OUTPUT, along.outer, along.inner, along.count, ahead, skip, skip, start)
    return Lowered((KernelCall(kernel, (*walk, *numbers)),))


def top(isa: Isa, rows: int, count: int, k: int, element: Element) -> Lowered:
    """The largest `k` of each row, and their positions as int32."""
    return Lowered((KernelCall(TopKernel(isa, element), (INPUT, OUTPUT, Place(Role.OUTPUT, 1), rows, count, k)),))
