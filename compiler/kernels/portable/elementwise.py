# SPDX-License-Identifier: Apache-2.0
"""Elementwise kernels of two inputs, with broadcasting: up to four nested loops over merged axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from compiler.codegen.builder import Value
from compiler.codegen.requantize import Multiplier, clamp, multiply_by_quantized_multiplier
from compiler.isa import Isa
from compiler.kernels.floats.functions import clamp as float_clamp
from compiler.kernels.kernel import Argument, KernelFunction
from compiler.kernels.portable.loops import Element, PortableKernel, lanes_of

Unary = Callable[[Value], Value]
Binary = Callable[[Value, Value], Value]
RANK = 4
"""The most merged axes."""


@dataclass(frozen=True)
class Loops:
    """Merged axes, outermost first: counts, and each input's step along them in elements (0: broadcast)."""

    counts: tuple[int, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]


def merged(output: tuple[int, ...], first: tuple[int, ...], second: tuple[int, ...]) -> Loops:
    """The fewest loops that walk `output` with inputs of shapes `first` and `second`, which broadcast to it."""
    axes: list[tuple[int, int, int]] = []
    steps = [_steps(shape, len(output)) for shape in (first, second)]
    for count, a, b in zip(output, *steps, strict=True):
        if count == 1:
            continue
        if axes and all(outer == inner * count for outer, inner in ((axes[-1][1], a), (axes[-1][2], b))):
            axes[-1] = (axes[-1][0] * count, a, b)
        else:
            axes.append((count, a, b))
    counts, a_steps, b_steps = zip(*axes or [(1, 0, 0)], strict=True)
    return Loops(counts, a_steps, b_steps)


def _steps(shape: tuple[int, ...], rank: int) -> list[int]:
    padded = (1,) * (rank - len(shape)) + shape
    steps, size = [0] * rank, 1
    for axis in range(rank - 1, -1, -1):
        steps[axis] = size if padded[axis] > 1 else 0
        size *= padded[axis]
    return steps


@dataclass(frozen=True)
class BinaryKernel(PortableKernel):
    """output = f(first, second). `inner_first`/`inner_second`: whether an input advances along the innermost axis;
    `lanes` elements a step of the innermost loop. Subclasses add their parameters behind these."""

    element: Element
    rank: int
    inner_first: bool
    inner_second: bool
    lanes: int

    parameters: ClassVar[tuple[str, ...]] = (
        "first", "second", "output", "inner",
        *(f"{what}{axis}" for axis in range(1, RANK) for what in ("count", "first_step", "second_step")),
    )  # fmt: skip

    @property
    def _suffix(self) -> str:
        inner = "".join("01"[i] for i in (self.inner_first, self.inner_second))
        return f"{self.element.value}_r{self.rank}_{inner}_x{self.lanes}"

    def operation(self, f: KernelFunction) -> Binary:
        """Loads the operation's parameters, and returns what emits it."""
        raise NotImplementedError

    def build(self, f: KernelFunction) -> None:
        operation = self.operation(f)
        self._nest(f, operation, self.rank - 1, f.pointer("first"), f.pointer("second"), f.pointer("output"))

    def _nest(
        self, f: KernelFunction, operation: Binary, axis: int, first: Value, second: Value, output: Value
    ) -> Value:
        if axis == 0:
            return self._inner(f, operation, first, second, output)

        def body(_: Value, carried: list[Value]) -> list[Value]:
            first, second, output = carried
            output = self._nest(f, operation, axis - 1, first, second, output)
            steps = (f.integer(f"{name}_step{axis}") for name in ("first", "second"))
            return [*(f.offset(p, s) for p, s in zip((first, second), steps, strict=True)), output]

        return f.loop(f.integer(f"count{axis}"), body, [first, second, output])[2]

    def _inner(self, f: KernelFunction, operation: Binary, first: Value, second: Value, output: Value) -> Value:
        size = self.element.bytes
        end = f.offset(output, f.integer("inner"))
        fixed = [
            None if moves else self.element.load(f, pointer)
            for moves, pointer in ((self.inner_first, first), (self.inner_second, second))
        ]

        def body(output: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            for lane in range(self.lanes):
                a, b = (
                    self.element.load(f, pointer, lane * size) if value is None else value
                    for value, pointer in zip(fixed, carried, strict=True)
                )
                self.element.store(f, operation(a, b), output, lane * size)
            ahead = [f.offset(p, self.lanes * size if v is None else 0) for v, p in zip(fixed, carried, strict=True)]
            return f.offset(output, self.lanes * size), ahead

        return f.loop_until(end, output, body, [first, second])[0]


def binary_arguments(
    loops: Loops, element: Element, first: Argument, second: Argument, output: Argument
) -> tuple[Argument, ...]:
    """The arguments of a `BinaryKernel`."""
    inner, *outer = range(len(loops.counts) - 1, -1, -1)
    arguments: list[Argument] = [first, second, output, loops.counts[inner] * element.bytes]
    for axis in outer:
        arguments += [loops.counts[axis], loops.first[axis] * element.bytes, loops.second[axis] * element.bytes]
    return (*arguments, *[0] * (3 * (RANK - 1 - len(outer))))


def binary_shape(loops: Loops) -> tuple[int, bool, bool, int]:
    """(rank, inner_first, inner_second, lanes) of the kernel for these loops."""
    return len(loops.counts), bool(loops.first[-1]), bool(loops.second[-1]), lanes_of(loops.counts[-1])


@dataclass(frozen=True)
class LinearBinaryKernel(BinaryKernel):
    """A proven linear form of two inputs, with its nudge if `nudged`; `whole`: the clamp is the range of int8."""

    nudged: bool
    whole: bool

    parameters: ClassVar[tuple[str, ...]] = (
        *BinaryKernel.parameters, "first_factor", "second_factor", "start", "rounding", "shift", "nudge", "minimum",
        "maximum",
    )  # fmt: skip

    @property
    def name(self) -> str:
        return f"linear_{self._suffix}{'_n' if self.nudged else ''}{'_w' if self.whole else ''}"

    def operation(self, f: KernelFunction) -> Binary:
        finish, start = emit_rounding(f, self.isa, self.nudged, self.whole), f.integer("start")
        first_factor, second_factor = f.integer("first_factor"), f.integer("second_factor")

        def linear(first: Value, second: Value) -> Value:
            return finish(f.add(f.add(start, f.mul(first, first_factor)), f.mul(second, second_factor)))

        return linear


@dataclass(frozen=True)
class ExactSumKernel(BinaryKernel):
    """ADD or SUB in the reference's steps: each input shifted left and scaled, then the sum or difference scaled."""

    subtract: bool
    whole: bool

    parameters: ClassVar[tuple[str, ...]] = (
        *BinaryKernel.parameters, "first_zero", "first_multiplier", "first_right", "second_zero", "second_multiplier",
        "second_right", "multiplier", "right", "zero_point", "minimum", "maximum",
    )  # fmt: skip

    @property
    def name(self) -> str:
        return f"{'sub' if self.subtract else 'add'}_{self._suffix}{'_w' if self.whole else ''}"

    def operation(self, f: KernelFunction) -> Binary:
        small = self.element is not Element.INT16
        left = LEFT_SHIFTS[self.element]
        zeros, by = {}, {}
        for name in ("first", "second"):
            zeros[name] = f.integer(f"{name}_zero")
            by[name] = Multiplier(f.integer(f"{name}_multiplier"), 0, f.integer(f"{name}_right"))
        out, zero_point = Multiplier(f.integer("multiplier"), 0, f.integer("right")), f.integer("zero_point")
        finish = emit_clamp(f, self.isa, self.whole)

        def scaled(value: Value, name: str) -> Value:
            shifted = f.shl(f.sub(value, zeros[name]), left)
            return multiply_by_quantized_multiplier(f, self.isa, shifted, by[name], small)

        def combined(first: Value, second: Value) -> Value:
            combine = f.sub if self.subtract else f.add
            total = combine(scaled(first, "first"), scaled(second, "second"))
            return finish(f.add(multiply_by_quantized_multiplier(f, self.isa, total, out, small), zero_point))

        return combined


LEFT_SHIFTS = {Element.INT8: 20, Element.UINT8: 20, Element.INT16: 15}
"""By how much ADD and SUB shift their inputs left."""


@dataclass(frozen=True)
class FloatBinaryKernel(BinaryKernel):
    """A float operation, clamped to minimum..maximum."""

    arithmetic: str
    minimum: float
    maximum: float

    @property
    def name(self) -> str:
        bounds = f"{self.minimum}_{self.maximum}".replace("-", "m").replace(".", "p")
        return f"{self.arithmetic}_{self._suffix}_{bounds}"

    def operation(self, f: KernelFunction) -> Binary:
        arithmetic = {"add": f.fadd, "sub": f.fsub, "mul": f.fmul, "div": f.fdiv}[self.arithmetic]
        return lambda first, second: float_clamp(f, arithmetic(first, second), self.minimum, self.maximum)


def emit_rounding(f: KernelFunction, isa: Isa, nudged: bool, whole: bool) -> Unary:
    """What finishes a linear form's sum: `shift`, `rounding` and `nudge`, `minimum` and `maximum` are parameters."""
    shift, finish = f.integer("shift"), emit_clamp(f, isa, whole)
    if not nudged:
        return lambda total: finish(f.ashr(total, shift))
    rounding, nudge = f.integer("rounding"), f.integer("nudge")

    def rounded(total: Value) -> Value:
        addend = f.sub(rounding, f.and_(f.ashr(total, 31), nudge))
        return finish(f.ashr(f.add(total, addend), shift))

    return rounded


def emit_clamp(f: KernelFunction, isa: Isa, whole: bool) -> Unary:
    """What clamps to int8 (`whole`), else to the parameters `minimum` and `maximum`."""
    if whole:
        return lambda value: clamp(f, isa, value, -128, 127)
    minimum, maximum = f.integer("minimum"), f.integer("maximum")
    return lambda value: clamp(f, isa, value, minimum, maximum)
