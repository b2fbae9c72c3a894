# SPDX-License-Identifier: Apache-2.0
"""Marks one cell of each line of a tensor, as an index says; the lines are filled before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from compiler.codegen.builder import I32, I64, Value
from compiler.kernels.kernel import KernelFunction
from compiler.kernels.portable.loops import Element, PortableKernel


@dataclass(frozen=True)
class OneHotKernel(PortableKernel):
    """`outer` blocks, each of `depth` x `inner` cells; each of the `inner` lines of a block has an index. An index
    outside the line marks nothing."""

    unit: Element
    index_bytes: int

    parameters: ClassVar[tuple[str, ...]] = ("indices", "target", "outer", "depth", "inner", "value", "block_bytes")

    @property
    def name(self) -> str:
        return f"one_hot_{self.unit.value}_i{8 * self.index_bytes}"

    def build(self, f: KernelFunction) -> None:
        kind, size = (I64 if self.index_bytes == 8 else I32), self.unit.bytes

        def block(_: Value, carried: list[Value]) -> list[Value]:
            block_target = carried[1]

            def line(_: Value, carried: list[Value]) -> list[Value]:
                indices, first = carried
                index, depth = f.load(kind, indices), f.integer("depth")
                inside = f.compare_unsigned("<", index, f.zext(depth, I64) if kind is I64 else depth)
                cell = f.mul(f.mul(f.trunc(index, I32) if kind is I64 else index, f.integer("inner")), size)
                f.branch(inside, lambda: self.unit.store(f, f.integer("value"), f.offset(first, cell)))
                return [f.offset(indices, self.index_bytes), f.offset(first, size)]

            indices, _first = f.loop(f.integer("inner"), line, [carried[0], block_target])
            return [indices, f.offset(block_target, f.integer("block_bytes"))]

        f.loop(f.integer("outer"), block, [f.pointer("indices"), f.pointer("target")])
