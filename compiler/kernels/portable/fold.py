# SPDX-License-Identifier: Apache-2.0
"""Reductions that combine elements as they are: largest, smallest, product, any, all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from compiler.codegen.builder import I64, Function, Value
from compiler.isa import Isa
from compiler.kernels.kernel import KernelCall, KernelFunction, Lowered
from compiler.kernels.portable.loops import Element
from compiler.kernels.portable.reduce import ReduceKernel, Reduction, reduction_arguments, reduction_lanes


@dataclass(frozen=True)
class Fold:
    """combine(what is found so far, an element), from `start` on; `name` tells all folds apart."""

    name: str
    start: float | int
    combine: Callable[[Function, Value, Value], Value] = field(compare=False)


@dataclass(frozen=True)
class FoldKernel(ReduceKernel):
    """A fold of elements of one type."""

    fold: Fold

    @property
    def name(self) -> str:
        return f"fold_{self.fold.name}_{self.element.value}_x{self.lanes}"

    def start(self, f: KernelFunction) -> Value:
        if self.element is Element.FLOAT32:
            return f.float(float(self.fold.start))
        start = int(self.fold.start)
        return f.const(start, I64) if self.element is Element.INT64 else f.const(start)

    def combine(self, f: KernelFunction) -> Callable[[Value, Value], Value]:
        return lambda total, value: self.fold.combine(f, total, value)

    def finish(self, f: KernelFunction) -> Callable[[Value], Value]:
        return lambda total: total


def lower_fold(isa: Isa, r: Reduction, element: Element, fold: Fold) -> Lowered:
    """The lowering of a fold."""
    kernel = FoldKernel(isa, element, reduction_lanes(r), fold)
    return Lowered((KernelCall(kernel, reduction_arguments(r, kernel)),))
