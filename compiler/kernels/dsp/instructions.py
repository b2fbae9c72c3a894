# SPDX-License-Identifier: Apache-2.0
"""The DSP extension's instructions (Armv7E-M, Armv8-M Main) as LLVM takes them. Source: Armv7-M ARM, A7.7."""

from __future__ import annotations

from compiler.codegen.builder import I16, I32, I64, Function, Operand, Value


def smlad(f: Function, a: Value, b: Value, total: Value) -> Value:
    """total + a.low * b.low + a.high * b.high of int16 halves, modulo 2^32."""
    return f.intrinsic("llvm.arm.smlad", I32, [a, b, total])


def smla_halves(f: Function, halves: str, a: Value, b: Value, total: Value) -> Value:
    """total + a half of `a` times a half of `b`; `halves` names them, 'b'ottom or 't'op: 'bt' is a.low * b.high."""
    return f.intrinsic(f"llvm.arm.smla{halves}", I32, [a, b, total])


def extend_quad(f: Function, word: Value) -> tuple[Value, Value]:
    """Four int8 as two pairs of int16: bytes (0, 2) and bytes (1, 3)."""
    return extend_even(f, word), extend_odd(f, word)


def extend_even(f: Function, word: Value) -> Value:
    """Bytes 0 and 2 as a pair of int16 (SXTB16)."""
    return f.intrinsic("llvm.arm.sxtb16", I32, [word])


def extend_odd(f: Function, word: Value) -> Value:
    """Bytes 1 and 3 as a pair of int16 (SXTB16 with rotation)."""
    return f.intrinsic("llvm.arm.sxtb16", I32, [f.rotate_left(word, 24)])


def saturate(f: Function, value: Value, bits: int = 8) -> Value:
    """A signed value clamped to `bits` bits; a preceding arithmetic right shift by a constant is free."""
    return f.intrinsic("llvm.arm.ssat", I32, [value, f.const(bits)])


def multiply_high_add(f: Function, a: Value, b: Value, addend: Operand) -> Value:
    """(a * b >> 32) + addend. LLVM sees SMMLA only while neither factor is a constant."""
    product = f.mul(f.sext(a, I64), f.sext(b, I64))
    return f.add(f.trunc(f.lshr(product, 32), I32), addend)


def extend_halfword(f: Function, value: Value) -> Value:
    """An i8 value as int16, zero-extended to a word (the low half of a pair)."""
    return f.zext(f.sext(value, I16), I32)


def joined_quad(f: Function, word: Value) -> tuple[Value, Value]:
    """Activations for joined weights: with v = byte 0 (2) + 128, pairs of -(256 * byte 1 (3) + v) - 1, and of v."""
    joined = f.xor(word, 0x00800080)
    return f.xor(joined, -1), f.intrinsic("llvm.arm.uxtb16", I32, [joined])
