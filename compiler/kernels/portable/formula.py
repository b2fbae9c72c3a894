# SPDX-License-Identifier: Apache-2.0
"""Elementwise kernels of any number of inputs, with broadcasting: nested loops over merged axes around a formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from compiler.codegen.builder import Function, Value
from compiler.isa import Isa
from compiler.kernels.kernel import OUTPUT, Argument, KernelCall, KernelFunction, Lowered, Place
from compiler.kernels.overlap import elementwise as in_order
from compiler.kernels.portable.loops import Element, PortableKernel, lanes_of

Emit = Callable[[Function, Isa, Sequence[Value], Sequence[Value]], Value]
"""(function, instruction set, an element of each operand, parameters) -> an element of the output."""


@dataclass(frozen=True)
class Formula:
    """What one output element is. `name` tells all formulas apart. `parameters` are i32 values that a call gives,
    `tables` addresses behind them. `lanes` is the most elements that one step of the innermost loop computes."""

    name: str
    emit: Emit = field(compare=False)
    parameters: tuple[str, ...] = ()
    lanes: int = 4
    tables: tuple[str, ...] = ()


@dataclass(frozen=True)
class Operand:
    """An input of an elementwise kernel: where it is, what its elements are, and its shape."""

    argument: Argument
    element: Element
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ElementwiseKernel(PortableKernel):
    """output = formula(inputs). `moves` tells which inputs advance along the innermost of `rank` axes; the others are
    loaded once for it."""

    formula: Formula
    sources: tuple[Element, ...]
    target: Element
    moves: tuple[bool, ...]
    rank: int
    lanes: int

    @property
    def parameters(self) -> tuple[str, ...]:  # type: ignore[override]
        inputs = range(len(self.sources))
        axes = (name for a in range(1, self.rank) for name in (f"count{a}", *(f"step{i}_{a}" for i in inputs)))
        return *(f"input{i}" for i in inputs), "output", "inner", *axes, *self.formula.parameters, *self.formula.tables

    @property
    def name(self) -> str:
        types = "_".join(e.value for e in (*self.sources, self.target))
        moves = "".join("01"[m] for m in self.moves)
        return f"{self.formula.name}_{types}_r{self.rank}_{moves}_x{self.lanes}"

    def build(self, f: KernelFunction) -> None:
        numbers = [f.integer(p) for p in self.formula.parameters] + [f.pointer(t) for t in self.formula.tables]
        pointers = [f.pointer(f"input{i}") for i in range(len(self.sources))]
        self._nest(f, numbers, self.rank - 1, pointers, f.pointer("output"))

    def _nest(self, f: KernelFunction, numbers: list[Value], axis: int, inputs: list[Value], output: Value) -> Value:
        if axis == 0:
            return self._inner(f, numbers, inputs, output)

        def body(_: Value, carried: list[Value]) -> list[Value]:
            *pointers, target = carried
            target = self._nest(f, numbers, axis - 1, pointers, target)
            ahead = (f.offset(p, f.integer(f"step{i}_{axis}")) for i, p in enumerate(pointers))
            return [*ahead, target]

        return f.loop(f.integer(f"count{axis}"), body, [*inputs, output])[-1]

    def _inner(self, f: KernelFunction, numbers: list[Value], inputs: list[Value], output: Value) -> Value:
        operands = list(zip(self.sources, self.moves, strict=True))
        fixed = [None if moves else e.load(f, p) for (e, moves), p in zip(operands, inputs, strict=True)]

        def body(target: Value, pointers: list[Value]) -> tuple[Value, list[Value]]:
            for lane in range(self.lanes):
                values = [
                    element.load(f, pointer, lane * element.bytes) if value is None else value
                    for (element, _), value, pointer in zip(operands, fixed, pointers, strict=True)
                ]
                result = self.formula.emit(f, self.isa, values, numbers)
                self.target.store(f, result, target, lane * self.target.bytes)
            steps = (self.lanes * element.bytes if moves else 0 for element, moves in operands)
            ahead = [f.offset(pointer, step) for pointer, step in zip(pointers, steps, strict=True)]
            return f.offset(target, self.lanes * self.target.bytes), ahead

        return f.loop_until(f.offset(output, f.integer("inner")), output, body, inputs)[0]


def elementwise(
    isa: Isa, formula: Formula, inputs: Sequence[Operand], target: Element, shape: tuple[int, ...],
    parameters: Sequence[Argument] = (),
) -> Lowered:  # fmt: skip
    """The lowering of `formula` over an output of `shape` (not empty), to which the inputs' shapes broadcast."""
    counts, steps = merged(shape, [i.shape for i in inputs])
    moves = tuple(bool(s[-1]) for s in steps)
    lanes = lanes_of(counts[-1], formula.lanes)
    kernel = ElementwiseKernel(isa, formula, tuple(i.element for i in inputs), target, moves, len(counts), lanes)
    arguments: list[Argument] = [*(i.argument for i in inputs), OUTPUT, counts[-1] * target.bytes]
    for axis in range(len(counts) - 2, -1, -1):
        arguments += [counts[axis], *(s[axis] * i.element.bytes for s, i in zip(steps, inputs, strict=True))]
    whole = [
        replace(in_order(prod(shape), i.element.bytes, target.bytes), input=i.argument.index)
        for i in inputs
        if isinstance(i.argument, Place) and i.shape == shape
    ]
    return Lowered((KernelCall(kernel, (*arguments, *parameters)),), overlaps=tuple(whole))


def merged(
    output: tuple[int, ...], shapes: Sequence[tuple[int, ...]]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """The fewest loops that walk `output`, outermost first: their counts, and each input's steps along them in
    elements (0 where it is broadcast)."""
    axes: list[tuple[int, tuple[int, ...]]] = []
    rows = [_steps(shape, len(output)) for shape in shapes]
    for count, *steps in zip(output, *rows, strict=True):
        if count == 1:
            continue
        if axes and all(outer == inner * count for outer, inner in zip(axes[-1][1], steps, strict=True)):
            axes[-1] = (axes[-1][0] * count, tuple(steps))
        else:
            axes.append((count, tuple(steps)))
    axes = axes or [(1, (0,) * len(shapes))]
    return tuple(a[0] for a in axes), tuple(zip(*(a[1] for a in axes), strict=True))


def _steps(shape: tuple[int, ...], rank: int) -> list[int]:
    padded = (1,) * (rank - len(shape)) + shape
    return [prod(padded[axis + 1 :]) if padded[axis] > 1 else 0 for axis in range(rank)]
