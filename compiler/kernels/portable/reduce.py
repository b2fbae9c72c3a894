# SPDX-License-Identifier: Apache-2.0
"""Sums and means over any axes of int8, int16 and float32 tensors: two loops over what is kept, two over what is
reduced, after adjacent axes are merged."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from compiler.codegen.builder import Value
from compiler.codegen.requantize import Multiplier, clamp, multiply_by_quantized_multiplier, split_shift
from compiler.isa import Isa
from compiler.kernels.kernel import INPUT, OUTPUT, Argument, Constant, KernelCall, KernelFunction, Lowered
from compiler.kernels.portable.loops import Element, PortableKernel, lanes_of

LOOPS = 2
"""The most merged axes that are kept, and that are reduced."""


@dataclass(frozen=True)
class Axis:
    """A merged axis: cells, and the elements from one to the next."""

    count: int
    step: int


@dataclass(frozen=True)
class Reduction:
    """The merged axes, outermost first."""

    kept: tuple[Axis, ...]
    reduced: tuple[Axis, ...]

    @property
    def count(self) -> int:
        """The elements that each output stands for."""
        product = 1
        for axis in self.reduced:
            product *= axis.count
        return product

    @property
    def is_walkable(self) -> bool:
        return len(self.kept) <= LOOPS and len(self.reduced) <= LOOPS


def reduction(shape: tuple[int, ...], axes: frozenset[int]) -> Reduction:
    """The reduction of `axes` (0 <= axis < rank) of a tensor of `shape`."""
    merged: list[tuple[bool, Axis]] = []
    step = 1
    for axis in range(len(shape) - 1, -1, -1):
        count, reduced = shape[axis], axis in axes
        if count > 1:
            if merged and merged[-1][0] == reduced:
                inner = merged[-1][1]
                merged[-1] = reduced, Axis(inner.count * count, inner.step)
            else:
                merged.append((reduced, Axis(count, step)))
        step *= count
    merged.reverse()
    return Reduction(tuple(a for r, a in merged if not r), tuple(a for r, a in merged if r))


@dataclass(frozen=True)
class ReduceKernel(PortableKernel):
    """Sums; `lanes` neighbouring outputs at a time. Subclasses finish a sum."""

    element: Element
    lanes: int

    parameters: ClassVar[tuple[str, ...]] = (
        "input", "output", "outer", "outer_step", "blocks", "block_step",
        "first_count", "first_step", "second_count", "second_step",
    )  # fmt: skip

    @abstractmethod
    def start(self, f: KernelFunction) -> Value:
        """What a sum starts at."""

    @abstractmethod
    def finish(self, f: KernelFunction) -> Callable[[Value], Value]:
        """Loads what finishing needs, and returns what finishes a sum."""

    def combine(self, f: KernelFunction) -> Callable[[Value, Value], Value]:
        """What adds an element to a sum."""
        return f.fadd if self.element is Element.FLOAT32 else f.add

    def build(self, f: KernelFunction) -> None:
        start, finish, size = self.start(f), self.finish(f), self.element.bytes
        add = self.combine(f)

        def second(_: Value, carried: list[Value]) -> list[Value]:
            cell, step, *sums = carried
            values = [self.element.load(f, cell, lane * size) for lane in range(self.lanes)]
            return [f.offset(cell, step), step, *(add(s, v) for s, v in zip(sums, values, strict=True))]

        def first(_: Value, carried: list[Value]) -> list[Value]:
            row, *sums = carried
            inner = [row, f.integer("second_step"), *sums]
            return [f.offset(row, f.integer("first_step")), *f.loop(f.integer("second_count"), second, inner)[2:]]

        def block(_: Value, carried: list[Value]) -> list[Value]:
            cell, output = carried
            _, *sums = f.loop(f.integer("first_count"), first, [cell, *[start] * self.lanes])
            for lane, total in enumerate(sums):
                self.element.store(f, finish(total), output, lane * size)
            return [f.offset(cell, f.integer("block_step")), f.offset(output, self.lanes * size)]

        def outer(_: Value, carried: list[Value]) -> list[Value]:
            cell, output = carried
            _, output = f.loop(f.integer("blocks"), block, [cell, output])
            return [f.offset(cell, f.integer("outer_step")), output]

        f.loop(f.integer("outer"), outer, [f.pointer("input"), f.pointer("output")])


@dataclass(frozen=True)
class IntegerReduceKernel(ReduceKernel):
    """`small`: no sum reaches 2**29 after its left shift."""

    small: bool

    parameters: ClassVar[tuple[str, ...]] = (
        *ReduceKernel.parameters, "start", "multiplier", "left", "right", "zero_point", "minimum", "maximum",
    )  # fmt: skip

    @property
    def name(self) -> str:
        return f"reduce_{self.element.value}_x{self.lanes}{'_s' if self.small else ''}"

    def start(self, f: KernelFunction) -> Value:
        return f.integer("start")

    def finish(self, f: KernelFunction) -> Callable[[Value], Value]:
        by = Multiplier(f.integer("multiplier"), f.integer("left"), f.integer("right"))
        zero_point, minimum, maximum = f.integer("zero_point"), f.integer("minimum"), f.integer("maximum")

        def finished(total: Value) -> Value:
            scaled = multiply_by_quantized_multiplier(f, self.isa, total, by, self.small)
            return clamp(f, self.isa, f.add(scaled, zero_point), minimum, maximum)

        return finished


class FloatReduceKernel(ReduceKernel):
    """Divides by the float in `divisor` (1 for a sum)."""

    parameters: ClassVar[tuple[str, ...]] = (*ReduceKernel.parameters, "divisor")

    @property
    def name(self) -> str:
        return f"reduce_f32_x{self.lanes}"

    def start(self, f: KernelFunction) -> Value:
        return f.float(0.0)

    def finish(self, f: KernelFunction) -> Callable[[Value], Value]:
        divisor = f.load_f32(f.pointer("divisor"))
        return lambda total: f.fdiv(total, divisor)


@dataclass(frozen=True)
class IntegerFinish:
    """How an integer sum becomes an output: start + sum, times multiplier and shift, plus zero point, clamped.
    `largest` bounds the magnitude of start + sum."""

    start: int
    multiplier: int
    shift: int
    zero_point: int
    minimum: int
    maximum: int
    largest: int


def reduce_integer(isa: Isa, r: Reduction, element: Element, finish: IntegerFinish) -> Lowered:
    """The lowering of an integer reduction whose results stay within 30 bits."""
    left, right = split_shift(finish.shift)
    small = finish.largest << left < 1 << 29
    kernel = IntegerReduceKernel(isa, element, reduction_lanes(r), small)
    tail = (finish.start, finish.multiplier, left, right, finish.zero_point, finish.minimum, finish.maximum)
    return Lowered((KernelCall(kernel, (*reduction_arguments(r, kernel), *tail)),))


def reduce_float(isa: Isa, r: Reduction, divisor: bytes) -> Lowered:
    """The lowering of a float reduction; `divisor` is a float32 in memory order."""
    kernel = FloatReduceKernel(isa, Element.FLOAT32, reduction_lanes(r))
    return Lowered((KernelCall(kernel, (*reduction_arguments(r, kernel), Constant(divisor))),))


def reduction_lanes(r: Reduction) -> int:
    """Neighbouring outputs that one walk can reduce."""
    return lanes_of(r.kept[-1].count) if r.kept and r.kept[-1].step == 1 else 1


def reduction_arguments(r: Reduction, kernel: ReduceKernel) -> tuple[Argument, ...]:
    """The first arguments of a `ReduceKernel`."""
    size = kernel.element.bytes
    outer, inner = _two(r.kept)
    first, second = _two(r.reduced)
    return (
        INPUT, OUTPUT, outer.count, outer.step * size, inner.count // kernel.lanes, inner.step * size * kernel.lanes,
        first.count, first.step * size, second.count, second.step * size,
    )  # fmt: skip


def _two(axes: tuple[Axis, ...]) -> tuple[Axis, Axis]:
    outer, inner = (Axis(1, 0), Axis(1, 0), *axes)[-LOOPS:]
    return outer, inner
