# SPDX-License-Identifier: Apache-2.0
"""Values of LLVM IR: the types, constants, and arithmetic on operands that may be plain integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from llvmlite import ir

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F32 = ir.FloatType()
F64 = ir.DoubleType()
PTR = ir.PointerType()
VOID = ir.VoidType()

Value: TypeAlias = ir.Value
Operand: TypeAlias = ir.Value | int


class Values:
    """Appends what computes values to a function under construction; an `int` operand takes the other one's type."""

    module: ir.Module
    builder: ir.IRBuilder

    def const(self, value: int, kind: ir.Type = I32) -> ir.Constant:
        """An integer constant, wrapped to the width of `kind`."""
        bits = kind.width
        value &= (1 << bits) - 1
        return ir.Constant(kind, value - (1 << bits) if value >> (bits - 1) and bits > 1 else value)

    def double(self, value: float) -> ir.Constant:
        return ir.Constant(F64, value)

    def float(self, value: float) -> ir.Constant:
        return ir.Constant(F32, value)

    def splat(self, value: int, kind: ir.VectorType) -> ir.Constant:
        return ir.Constant(kind, [value] * kind.count)

    def value(self, operand: Operand, kind: ir.Type = I32) -> ir.Value:
        return self.const(operand, kind) if isinstance(operand, int) else operand

    def _pair(self, a: Operand, b: Operand) -> tuple[ir.Value, ir.Value]:
        kind = next((x.type for x in (a, b) if not isinstance(x, int)), I32)
        if isinstance(kind, ir.VectorType):
            left = self.splat(a, kind) if isinstance(a, int) else a
            return left, self.splat(b, kind) if isinstance(b, int) else b
        return self.value(a, kind), self.value(b, kind)

    def add(self, a: Operand, b: Operand) -> ir.Value:
        return self.builder.add(*self._pair(a, b))

    def sub(self, a: Operand, b: Operand) -> ir.Value:
        return self.builder.sub(*self._pair(a, b))

    def mul(self, a: Operand, b: Operand) -> ir.Value:
        return self.builder.mul(*self._pair(a, b))

    def and_(self, a: Operand, b: Operand) -> ir.Value:
        return self.builder.and_(*self._pair(a, b))

    def or_(self, a: Operand, b: Operand) -> ir.Value:
        return self.builder.or_(*self._pair(a, b))

    def xor(self, a: Operand, b: Operand) -> ir.Value:
        return self.builder.xor(*self._pair(a, b))

    def shl(self, a: Operand, b: Operand) -> ir.Value:
        return self.builder.shl(*self._pair(a, b))

    def ashr(self, a: Operand, b: Operand) -> ir.Value:
        return self.builder.ashr(*self._pair(a, b))

    def lshr(self, a: Operand, b: Operand) -> ir.Value:
        return self.builder.lshr(*self._pair(a, b))

    def compare(self, relation: str, a: Operand, b: Operand) -> ir.Value:
        """A signed comparison ('<', '<=', '==', '!=', '>', '>=')."""
        return self.builder.icmp_signed(relation, *self._pair(a, b))

    def compare_unsigned(self, relation: str, a: Operand, b: Operand) -> ir.Value:
        return self.builder.icmp_unsigned(relation, *self._pair(a, b))

    def select(self, condition: ir.Value, yes: Operand, no: Operand) -> ir.Value:
        return self.builder.select(condition, *self._pair(yes, no))

    def minimum(self, a: Operand, b: Operand) -> ir.Value:
        a, b = self._pair(a, b)
        return self.intrinsic("llvm.smin", a.type, [a, b], overload=[a.type])

    def maximum(self, a: Operand, b: Operand) -> ir.Value:
        a, b = self._pair(a, b)
        return self.intrinsic("llvm.smax", a.type, [a, b], overload=[a.type])

    def sext(self, a: ir.Value, kind: ir.Type = I32) -> ir.Value:
        return self.builder.sext(a, kind)

    def zext(self, a: ir.Value, kind: ir.Type = I32) -> ir.Value:
        return self.builder.zext(a, kind)

    def trunc(self, a: ir.Value, kind: ir.Type) -> ir.Value:
        return self.builder.trunc(a, kind)

    def rotate_left(self, a: ir.Value, bits: int) -> ir.Value:
        return self.intrinsic("llvm.fshl.i32", I32, [a, a, self.const(bits)])

    # -- floats: IEEE single precision, never contracted, so that soft-float and hard-float give the same bits --------

    def fadd(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fadd(a, b)

    def fsub(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fsub(a, b)

    def fmul(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fmul(a, b)

    def fdiv(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fdiv(a, b)

    def fcompare(self, relation: str, a: ir.Value, b: ir.Value) -> ir.Value:
        """An ordered comparison: false where an operand is NaN, except '!='."""
        if relation == "!=":
            return self.builder.fcmp_unordered(relation, a, b)
        return self.builder.fcmp_ordered(relation, a, b)

    def to_double(self, a: ir.Value) -> ir.Value:
        """A float as double."""
        return self.builder.fpext(a, F64)

    def to_single(self, a: ir.Value) -> ir.Value:
        """A double rounded to float."""
        return self.builder.fptrunc(a, F32)

    def bits(self, a: ir.Value) -> ir.Value:
        """The i32 that holds a float's bits."""
        return self.builder.bitcast(a, I32)

    def from_bits(self, a: ir.Value) -> ir.Value:
        """The float of an i32, the double of an i64."""
        return self.builder.bitcast(a, F64 if a.type == I64 else F32)

    def to_float(self, a: ir.Value) -> ir.Value:
        """A signed integer as float, rounded to nearest."""
        return self.builder.sitofp(a, F32)

    def to_int(self, a: ir.Value) -> ir.Value:
        """A float or double truncated to i32; its integral part must fit."""
        return self.builder.fptosi(a, I32)

    def intrinsic(
        self, name: str, result: ir.Type, arguments: Sequence[Operand], overload: Sequence[ir.Type] = ()
    ) -> ir.Value:
        """Calls an LLVM intrinsic by its full name, or by its stem and the types that are appended to it."""
        full = name + "".join(f".{_mangle(kind)}" for kind in overload)
        values = [self.value(a) for a in arguments]
        return self.builder.call(self.declare(full, [v.type for v in values], result), values)

    def declare(self, name: str, arguments: Sequence[ir.Type], result: ir.Type = VOID) -> ir.Function:
        """The function `name` of this module, declared at first use."""
        if name in self.module.globals:
            return self.module.globals[name]
        return ir.Function(self.module, ir.FunctionType(result, list(arguments)), name)


def _mangle(kind: ir.Type) -> str:
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{_mangle(kind.element)}"
    return {"float": "f32", "double": "f64"}.get(str(kind), str(kind))
