# SPDX-License-Identifier: Apache-2.0
"""What the scalar kernels ask of a core: one multiply-accumulate at a time, high products, clamps without branches.

The kernels of this folder are shared by RV32IM, ARMv6-M, ARMv7-M and RV32E; what
differs between these is here and in their modules under compiler/isa/.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from compiler.codegen.builder import I16, I32, I64, Function, Operand, Value
from compiler.kernels.kernel import Argument, CompileOptions, Constant, KernelFunction

_SQUARES = 256


class Multiplier(Enum):
    """The multiplication instructions of a core."""

    HIGH = "h"
    """32 x 32 -> 64 bits."""
    LOW = "l"
    """32 x 32 -> 32 bits: high products are put together from 16-bit pieces."""
    NONE = "n"
    """A call of libgcc's __mulsi3, whose time depends on its second operand: constants go there."""
    SQUARES = "q"
    """As NONE, but products of int8 are differences of quarters of squares, from a table."""


@dataclass(frozen=True)
class ScalarCore:
    """`unsigned_inputs` and `unsigned_weights`: these bytes are loaded as value + 128, where the core has no signed
    byte load with an offset or where the multiplication is quicker by small positive numbers; the kernels correct for
    it. `saturates`: the core clamps to int8 in one instruction. `pinned`: loads of inner loops keep their order,
    since LLVM would hoist and spill them. `lookup_gain`: instructions that a table spares in a clamp (0: no tables)."""

    multiplier: Multiplier
    unsigned_inputs: bool
    unsigned_weights: bool
    saturates: bool
    pinned: bool
    options: CompileOptions
    lookup_gain: int = 0

    @property
    def tag(self) -> str:
        """The part of a kernel's name that says for which kind of core it is."""
        return f"{self.multiplier.value}{self.unsigned_inputs:d}{self.unsigned_weights:d}{self.saturates:d}"

    def multiply(self, f: Function, value: Value, constant: Value) -> Value:
        """The low 32 bits of the product."""
        if self.multiplier in (Multiplier.HIGH, Multiplier.LOW):
            return f.mul(value, constant)
        return f.builder.call(f.declare("__mulsi3", [I32, I32], I32), [value, constant])

    def factor(self, f: Function, value: Value, squares: Value) -> tuple[Value, ...]:
        """What `add_product` takes of an input. `squares`: the table of `squares_entry`."""
        if self.multiplier is not Multiplier.SQUARES:
            return (value,)
        # ab = q(b + a) - q(b - a) with q(n) = floor(n * n / 4): both sides are odd, or both even.
        middle, doubled = f.offset(squares, 2 * _SQUARES), f.shl(value, 1)
        return f.offset(middle, doubled), f.offset(middle, f.sub(0, doubled))

    def add_product(self, f: Function, total: Value, factor: tuple[Value, ...], weight: Value) -> Value:
        """`total` + the product of an input's `factor` and a weight."""
        if self.multiplier is not Multiplier.SQUARES:
            return f.add(total, self.multiply(f, factor[0], weight))
        doubled = f.shl(weight, 1)
        plus, minus = (f.zext(f.load(I16, pointer, doubled)) for pointer in factor)
        return f.sub(f.add(total, plus), minus)

    def squares(self, f: KernelFunction, lean: bool) -> Value:
        """The table of `squares_entry`; a lean kernel reads it where it is used."""
        return f.const(0) if lean and self.multiplier is not Multiplier.SQUARES else f.pointer("squares")

    @property
    def squares_entry(self) -> Argument:
        """The table's entry of a kernel: n * n / 4 for n from -256 to 255, as halfwords; 0 where it is not used."""
        if self.multiplier is not Multiplier.SQUARES:
            return 0
        return Constant((np.arange(-_SQUARES, _SQUARES) ** 2 // 4).astype("<u2").tobytes())

    def multiply_high(self, f: Function, a: Value, b: Value) -> Value:
        """(a * b) >> 32 of signed values."""
        if self.multiplier is Multiplier.HIGH:
            return f.trunc(f.lshr(f.mul(f.sext(a, I64), f.sext(b, I64)), 32), I32)
        # Sums of a product of halves and a half stay within 31 bits and a sign.
        low, high = f.and_(a, 0xFFFF), f.ashr(a, 16)
        other_low, other_high = f.and_(b, 0xFFFF), f.ashr(b, 16)
        carried = f.lshr(self.multiply(f, low, other_low), 16)
        cross = f.add(self.multiply(f, high, other_low), carried)
        middle = f.add(self.multiply(f, low, other_high), f.and_(cross, 0xFFFF))
        return f.add(f.add(self.multiply(f, high, other_high), f.ashr(cross, 16)), f.ashr(middle, 16))

    def saturate_int8(self, f: Function, value: Value) -> Value:
        """`value` clamped to -128..127, as an i32."""
        if self.saturates:
            return f.intrinsic("llvm.arm.ssat", I32, [value, f.const(8)])
        return clamped(f, f.add(value, 127), 254, 127)

    def load_input(self, f: Function, pointer: Value, offset: int = 0) -> Value:
        return (f.load_u8 if self.unsigned_inputs else f.load_s8)(pointer, offset, volatile=self.pinned)

    def load_weight(self, f: Function, pointer: Value, offset: int = 0) -> Value:
        return (f.load_u8 if self.unsigned_weights else f.load_s8)(pointer, offset, volatile=self.pinned)


def clamped(f: Function, value: Value, span: Operand, top: Operand) -> Value:
    """`value` + bottom + 1 clamped to bottom..top, where `span` is top - bottom - 1."""
    value = f.sub(f.or_(value, f.ashr(value, 31)), span)
    return f.add(f.and_(value, f.ashr(value, 31)), top)
