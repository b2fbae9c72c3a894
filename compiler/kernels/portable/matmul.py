# SPDX-License-Identifier: Apache-2.0
"""Products of two matrices that are both computed at run time, in batches: any strides, so transposed ones too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from math import prod

from compiler.codegen.builder import I64, Value
from compiler.codegen.requantize import (
    Multiplier,
    Multiplier64,
    clamp,
    multiply_by_quantized_multiplier,
    multiply_by_quantized_multiplier_64,
    reduce_multiplier,
    split_shift,
)
from compiler.isa import Isa
from compiler.kernels.kernel import OUTPUT, Argument, KernelCall, KernelFunction, Lowered
from compiler.kernels.portable.formula import merged
from compiler.kernels.portable.loops import Element, PortableKernel, lanes_of


class Form(Enum):
    """How a sum of products is kept and becomes an output."""

    FLOAT = "f"
    DOUBLE = "d"
    """i32, double rounding."""
    LONG = "l"
    """i64, one rounding of a 64-bit product."""


@dataclass(frozen=True)
class Matrices:
    """The operands: [..., rows, depth] x [..., depth, columns] -> [..., rows, columns]. `lhs` and `rhs` are the two
    matrices' steps in elements along (rows, depth) and (depth, columns); `batches` are the leading axes of the output
    and of both inputs, which broadcast."""

    rows: int
    depth: int
    columns: int
    lhs: tuple[int, int]
    rhs: tuple[int, int]
    batches: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class MatmulKernel(PortableKernel):
    """The sums of `lanes` neighbouring columns at a time, in the order of the depth. `rank`: loops over batches."""

    sources: tuple[Element, Element]
    target: Element
    form: Form
    rank: int
    lanes: int

    @property
    def parameters(self) -> tuple[str, ...]:  # type: ignore[override]
        batches = (name for axis in range(self.rank) for name in (f"count{axis}", f"lhs_step{axis}", f"rhs_step{axis}"))
        return (
            "lhs", "rhs", "output", "rows", "blocks", "depth", "lhs_row", "lhs_depth", "rhs_depth", "rhs_column",
            *batches, *_FINISHING[self.form],
        )  # fmt: skip

    @property
    def name(self) -> str:
        types = "_".join(e.value for e in (*self.sources, self.target))
        return f"matmul_{types}_{self.form.value}_r{self.rank}_x{self.lanes}"

    def build(self, f: KernelFunction) -> None:
        finish = self._finish(f)
        self._batches(f, finish, self.rank - 1, f.pointer("lhs"), f.pointer("rhs"), f.pointer("output"))

    def _batches(
        self, f: KernelFunction, finish: Callable[[Value], Value], axis: int, lhs: Value, rhs: Value, output: Value
    ) -> Value:
        if axis < 0:
            return self._rows(f, finish, lhs, rhs, output)

        def body(_: Value, carried: list[Value]) -> list[Value]:
            lhs, rhs, output = carried
            output = self._batches(f, finish, axis - 1, lhs, rhs, output)
            steps = (f.integer(f"{name}_step{axis}") for name in ("lhs", "rhs"))
            return [*(f.offset(p, s) for p, s in zip((lhs, rhs), steps, strict=True)), output]

        return f.loop(f.integer(f"count{axis}"), body, [lhs, rhs, output])[2]

    def _rows(
        self, f: KernelFunction, finish: Callable[[Value], Value], lhs: Value, rhs: Value, output: Value
    ) -> Value:
        def row(_: Value, carried: list[Value]) -> list[Value]:
            left, output = carried

            def block(_: Value, state: list[Value]) -> list[Value]:
                right, output = state
                for lane, total in enumerate(self._sums(f, left, right)):
                    self.target.store(f, finish(total), output, lane * self.target.bytes)
                ahead = f.mul(f.integer("rhs_column"), self.lanes)
                return [f.offset(right, ahead), f.offset(output, self.lanes * self.target.bytes)]

            _, output = f.loop(f.integer("blocks"), block, [rhs, output])
            return [f.offset(left, f.integer("lhs_row")), output]

        return f.loop(f.integer("rows"), row, [lhs, output])[1]

    def _sums(self, f: KernelFunction, lhs: Value, rhs: Value) -> list[Value]:
        first, second = self.sources
        is_float = self.form is Form.FLOAT
        zero = f.float(0.0) if is_float else f.const(0, I64) if self.form is Form.LONG else f.const(0)
        zeros = [f.integer("lhs_zero"), f.integer("rhs_zero")] if self.form is Form.DOUBLE else []
        column, down = f.integer("rhs_column"), f.integer("rhs_depth")

        def product(a: Value, b: Value) -> Value:
            if is_float:
                return f.fmul(a, b)
            return f.sext(f.mul(a, b), I64) if self.form is Form.LONG else f.mul(a, b)

        def step(_: Value, carried: list[Value]) -> list[Value]:
            left, right, *sums = carried
            a = first.load(f, left)
            a = f.sub(a, zeros[0]) if zeros else a
            after, cell = [], right
            for lane, total in enumerate(sums):
                cell = f.offset(cell, column) if lane else cell
                b = second.load(f, cell)
                value = product(a, f.sub(b, zeros[1]) if zeros else b)
                after.append(f.fadd(total, value) if is_float else f.add(total, value))
            return [f.offset(left, f.integer("lhs_depth")), f.offset(right, down), *after]

        return f.loop(f.integer("depth"), step, [lhs, rhs, *[zero] * self.lanes])[2:]

    def _finish(self, f: KernelFunction) -> Callable[[Value], Value]:
        if self.form is Form.FLOAT:
            return lambda total: total
        low, high = f.integer("minimum"), f.integer("maximum")
        if self.form is Form.LONG:
            long = Multiplier64(f.integer("multiplier"), f.integer("right"))
            return lambda total: clamp(f, self.isa, multiply_by_quantized_multiplier_64(f, total, long), low, high)
        by = Multiplier(f.integer("multiplier"), f.integer("left"), f.integer("right"))
        zero_point = f.integer("zero_point")

        def finished(total: Value) -> Value:
            scaled = multiply_by_quantized_multiplier(f, self.isa, total, by)
            return clamp(f, self.isa, f.add(scaled, zero_point), low, high)

        return finished


_FINISHING: dict[Form, tuple[str, ...]] = {
    Form.FLOAT: (),
    Form.DOUBLE: ("lhs_zero", "rhs_zero", "multiplier", "left", "right", "zero_point", "minimum", "maximum"),
    Form.LONG: ("multiplier", "right", "minimum", "maximum"),
}


def matmul(
    isa: Isa, m: Matrices, operands: tuple[Argument, Argument], elements: tuple[Element, Element, Element], form: Form,
    finishing: tuple[int, ...] = (),
) -> Lowered:  # fmt: skip
    """The lowering of a batched product; `finishing` are the form's numbers."""
    lhs, rhs, target = elements
    counts, (lhs_steps, rhs_steps) = merged(m.batches[0], m.batches[1:])
    if counts == (1,):
        counts = ()
    kernel = MatmulKernel(isa, (lhs, rhs), target, form, len(counts), lanes_of(m.columns))
    numbers = [m.rows, m.columns // kernel.lanes, m.depth, m.lhs[0] * lhs.bytes, m.lhs[1] * lhs.bytes]
    numbers += [m.rhs[0] * rhs.bytes, m.rhs[1] * rhs.bytes]
    for axis in range(len(counts) - 1, -1, -1):
        left = lhs_steps[axis] * m.rows * m.depth * lhs.bytes
        numbers += [counts[axis], left, rhs_steps[axis] * m.depth * m.columns * rhs.bytes]
    macs = prod(m.batches[0]) * m.rows * m.depth * m.columns
    return Lowered((KernelCall(kernel, (*operands, OUTPUT, *numbers, *finishing)),), macs=macs)


def double_finish(
    zero_points: tuple[int, int, int], multiplier: int, shift: int, minimum: int, maximum: int
) -> tuple[int, ...]:
    """The numbers of `Form.DOUBLE`; `zero_points` of both inputs and the output."""
    lhs, rhs, output = zero_points
    return lhs, rhs, multiplier, *split_shift(shift), output, minimum, maximum


def long_finish(multiplier: int, shift: int, minimum: int, maximum: int) -> tuple[int, ...]:
    """The numbers of `Form.LONG`; zero points are 0."""
    return *reduce_multiplier(multiplier, shift), minimum, maximum
