# SPDX-License-Identifier: Apache-2.0
"""Choice between two tensors, element by element, with broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compiler.codegen.builder import Value
from compiler.isa import Isa
from compiler.kernels.kernel import OUTPUT, Argument, KernelCall, KernelFunction
from compiler.kernels.portable.copies import UNITS
from compiler.kernels.portable.loops import Element, PortableKernel

Loop = tuple[int, tuple[int, ...]]
"""Cells, and each operand's bytes from one to the next."""


def select(
    isa: Isa, operands: Sequence[Argument], shapes: Sequence[Sequence[int]], output: Sequence[int], size: int
) -> KernelCall:
    """The call that makes each element of the output, of `size` bytes, that of the second operand where the first, a
    byte each, is not 0, else of the third. The shapes broadcast to the output's."""
    sizes = (1, size, size)
    steps = [np.broadcast_to(np.empty(shape, f"V{n}"), output).strides for shape, n in zip(shapes, sizes, strict=True)]
    loops: list[Loop] = [(count, own) for count, *own_ in zip(output, *steps, strict=True) for own in [tuple(own_)]]
    unit = min(size, 4)
    if size > unit:
        loops.append((size // unit, (0, unit, unit)))
    loops = _merged(loops)
    numbers = [number for count, own in reversed(loops) for number in (count, *own)]
    return KernelCall(SelectKernel(isa, UNITS[unit], len(loops)), (*operands, OUTPUT, *numbers))


def _merged(loops: Sequence[Loop]) -> list[Loop]:
    """The fewest loops for the same walk, outermost first; at least one."""
    found: list[Loop] = []
    for count, steps in loops:
        if count == 1:
            continue
        if found and found[-1][1] == tuple(step * count for step in steps):
            found[-1] = found[-1][0] * count, steps
        else:
            found.append((count, steps))
    return found or [(1, (0, 0, 0))]


@dataclass(frozen=True)
class SelectKernel(PortableKernel):
    """Nested loops over units of 1, 2 or 4 bytes."""

    unit: Element
    rank: int

    @property
    def parameters(self) -> tuple[str, ...]:  # type: ignore[override]
        loops = (f"{what}{axis}" for axis in range(self.rank) for what in ("count", "condition", "first", "second"))
        return ("condition", "first", "second", "target", *loops)

    @property
    def name(self) -> str:
        return f"select_{self.unit.value}_r{self.rank}"

    def build(self, f: KernelFunction) -> None:
        pointers = [f.pointer(name) for name in ("condition", "first", "second")]
        self._nest(f, self.rank - 1, pointers, f.pointer("target"))

    def _nest(self, f: KernelFunction, axis: int, pointers: list[Value], target: Value) -> Value:
        """Emits the loops from `axis` inwards; returns the target behind what they store."""
        if axis < 0:
            condition, first, second = pointers
            value = f.select(
                f.compare("!=", f.load_u8(condition), 0), self.unit.load(f, first), self.unit.load(f, second)
            )
            self.unit.store(f, value, target)
            return f.offset(target, self.unit.bytes)
        steps = [f.integer(f"{what}{axis}") for what in ("condition", "first", "second")]

        def body(_: Value, carried: list[Value]) -> list[Value]:
            *pointers, target = carried
            advanced = [f.offset(pointer, step) for pointer, step in zip(pointers, steps, strict=True)]
            return [*advanced, self._nest(f, axis - 1, pointers, target)]

        return f.loop(f.integer(f"count{axis}"), body, [*pointers, target])[-1]
