# SPDX-License-Identifier: Apache-2.0
"""Structured IR building: the few shapes that kernels are made of (loads at offsets, counted loops, intrinsics).

A thin layer over `llvmlite.ir`. Integers are coerced to i32 constants, pointers are opaque, offsets are bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from llvmlite import ir

from compiler.codegen.values import F32, F64, I1, I8, I16, I32, I64, PTR, VOID, Operand, Value, Values

__all__ = [
    "F32",
    "F64",
    "I1",
    "I8",
    "I16",
    "I32",
    "I64",
    "PTR",
    "VOID",
    "Carried",
    "Function",
    "LoopBody",
    "Operand",
    "Value",
]

Carried: TypeAlias = Sequence[ir.Value]
LoopBody: TypeAlias = Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value] | None]


class _VolatileLoad(ir.instructions.LoadInstr):
    """A load that LLVM neither merges nor moves past other volatile loads; llvmlite has no switch for it."""

    def descr(self, buf: list[str]) -> None:
        (pointer,) = self.operands
        buf.append(f"load volatile {self.type}, {pointer.type} {pointer.get_reference()}, align {self.align}\n")


class _VolatileStore(ir.instructions.StoreInstr):
    """A store that is neither removed nor moved past other volatile accesses."""

    def descr(self, buf: list[str]) -> None:
        value, pointer = self.operands
        buf.append(
            f"store volatile {value.type} {value.get_reference()}, {pointer.type} {pointer.get_reference()}, align 4\n"
        )


class Function(Values):
    """A function under construction: the insertion point, its arguments, and helpers that append instructions."""

    def __init__(self, module: ir.Module, name: str, arguments: Sequence[ir.Type] = (), result: ir.Type = VOID) -> None:
        self.module = module
        self.function = ir.Function(module, ir.FunctionType(result, list(arguments)), name)
        self.function.attributes.add("nounwind")
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.arguments: tuple[ir.Value, ...] = tuple(self.function.args)

    # -- memory ---------------------------------------------------------------------------------------------------

    def offset(self, pointer: ir.Value, offset: Operand) -> ir.Value:
        """`pointer` advanced by `offset` bytes."""
        if isinstance(offset, int) and offset == 0:
            return pointer
        return self.builder.gep(pointer, [self.value(offset)], source_etype=I8)

    def load(
        self, kind: ir.Type, pointer: ir.Value, offset: Operand = 0, align: int | None = None, volatile: bool = False
    ) -> ir.Value:
        """Loads a `kind` (natural alignment unless given); `volatile` pins it in place and order."""
        address = self.offset(pointer, offset)
        align = align if align is not None else _natural(kind)
        if not volatile:
            return self.builder.load(address, align=align, typ=kind)
        instruction = _VolatileLoad(self.builder.block, address, "", kind)
        instruction.align = align
        self.builder._insert(instruction)
        return instruction

    def load_s8(self, pointer: ir.Value, offset: Operand = 0, volatile: bool = False) -> ir.Value:
        return self.sext(self.load(I8, pointer, offset, volatile=volatile))

    def load_u8(self, pointer: ir.Value, offset: Operand = 0, volatile: bool = False) -> ir.Value:
        return self.zext(self.load(I8, pointer, offset, volatile=volatile))

    def load_s16(self, pointer: ir.Value, offset: Operand = 0, volatile: bool = False) -> ir.Value:
        return self.sext(self.load(I16, pointer, offset, volatile=volatile))

    def load_i32(self, pointer: ir.Value, offset: Operand = 0, volatile: bool = False) -> ir.Value:
        return self.load(I32, pointer, offset, volatile=volatile)

    def load_f32(self, pointer: ir.Value, offset: Operand = 0) -> ir.Value:
        return self.load(F32, pointer, offset)

    def load_pair(self, pointer: ir.Value, offset: Operand = 0) -> tuple[ir.Value, ir.Value]:
        """Two consecutive words by one volatile 64-bit load (LDRD on Thumb-2), 4-byte aligned: (low, high)."""
        both = self.load(I64, pointer, offset, align=4, volatile=True)
        return self.trunc(both, I32), self.trunc(self.lshr(both, 32), I32)

    def store(self, value: ir.Value, pointer: ir.Value, offset: Operand = 0, align: int | None = None) -> None:
        self.builder.store(
            value, self.offset(pointer, offset), align=align if align is not None else _natural(value.type)
        )

    def store_i8(self, value: ir.Value, pointer: ir.Value, offset: Operand = 0) -> None:
        self.store(self.trunc(value, I8) if value.type != I8 else value, pointer, offset)

    def store_i16(self, value: ir.Value, pointer: ir.Value, offset: Operand = 0) -> None:
        self.store(self.trunc(value, I16) if value.type != I16 else value, pointer, offset)

    def store_volatile(self, word: ir.Value, pointer: ir.Value) -> None:
        """Stores an aligned i32 exactly here: what watches memory sees it in order."""
        self.builder._insert(_VolatileStore(self.builder.block, word, pointer))

    def alloca(self, kind: ir.Type, count: int = 1) -> ir.Value:
        """A fixed local array; always in the entry block so that the frame is static."""
        with self.builder.goto_entry_block():
            made = self.builder.alloca(ir.ArrayType(kind, count))
        made.type = PTR
        return made

    # -- control --------------------------------------------------------------------------------------------------

    def loop(
        self, count: Operand, body: LoopBody, carried: Carried = (), step: int = 1, start: Operand = 0
    ) -> list[ir.Value]:
        """`for i in range(start, count, step)`: `body(i, carried) -> next carried`; returns the last carried values.

        The body runs at least once (counts are known to be positive where kernels are chosen) and `i` must hit
        `count` exactly. With `count` 0 or 1 known here, no loop is made.
        """
        if isinstance(count, int) and isinstance(start, int):
            if count == start:
                return list(carried)
            if count == start + step:
                return list(body(self.const(start), list(carried)) or ())
        before = self.builder.block
        head = self.builder.append_basic_block("loop")
        done = self.builder.append_basic_block("done")
        self.builder.branch(head)
        self.builder.position_at_end(head)
        index = self.builder.phi(I32)
        phis = [self.builder.phi(v.type) for v in carried]
        after = list(body(index, list(phis)) or ())
        latch = self.builder.block
        advanced = self.add(index, step)
        index.add_incoming(self.value(start), before)
        index.add_incoming(advanced, latch)
        for phi, first, following in zip(phis, carried, after, strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(following, latch)
        self.builder.cbranch(self.compare("!=", advanced, count), head, done)
        self.builder.position_at_end(done)
        return after

    def loop_until(
        self,
        end: ir.Value,
        pointer: ir.Value,
        body: Callable[[ir.Value, list[ir.Value]], tuple[ir.Value, Sequence[ir.Value]]],
        carried: Carried = (),
    ) -> tuple[ir.Value, list[ir.Value]]:
        """Runs `body(pointer, carried) -> (next pointer, next carried)` until the pointer equals `end` (at least once).

        Comparing pointers spares a counter register."""
        before = self.builder.block
        head = self.builder.append_basic_block("walk")
        done = self.builder.append_basic_block("done")
        self.builder.branch(head)
        self.builder.position_at_end(head)
        cursor = self.builder.phi(PTR)
        phis = [self.builder.phi(v.type) for v in carried]
        advanced, after = body(cursor, list(phis))
        latch = self.builder.block
        cursor.add_incoming(pointer, before)
        cursor.add_incoming(advanced, latch)
        for phi, first, following in zip(phis, carried, after, strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(following, latch)
        self.builder.cbranch(self.builder.icmp_unsigned("!=", advanced, end), head, done)
        self.builder.position_at_end(done)
        return advanced, list(after)

    def branch(
        self, condition: ir.Value, then: Callable[[], None], otherwise: Callable[[], None] | None = None
    ) -> None:
        """`if condition: then() else: otherwise()`; values pass through memory or `select`, not through here."""
        if otherwise is None:
            with self.builder.if_then(condition):
                then()
        else:
            with self.builder.if_else(condition) as (yes, no):
                with yes:
                    then()
                with no:
                    otherwise()

    def split(self) -> None:
        """Ends the basic block: with -disable-cgp, code on both sides is scheduled apart, which keeps loads near
        their uses."""
        following = self.builder.append_basic_block("part")
        self.builder.branch(following)
        self.builder.position_at_end(following)

    def return_void(self) -> None:
        self.builder.ret_void()


def _natural(kind: ir.Type) -> int:
    if isinstance(kind, ir.IntType):
        return max(1, int(kind.width) // 8)
    if isinstance(kind, ir.VectorType):
        return _natural(kind.element) * int(kind.count)
    return 8 if isinstance(kind, ir.DoubleType) else 4
