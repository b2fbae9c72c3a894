# SPDX-License-Identifier: Apache-2.0
"""Helium (Armv8.1-M MVE) building blocks: vectors, dot products, exact requantisation, predicated copies.

Instruction semantics: Arm Armv8-M Architecture Reference Manual, DDI 0553. VQRDMULH.S32 is gemmlowp's
SaturatingRoundingDoublingHighMul for both signs; VRSHL rounds ties up where RoundingDivideByPOT rounds them away from
zero, which differs for negative ties only (see `Rounding`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from llvmlite import ir

from compiler.codegen.builder import I1, I8, I16, I32, Function, Operand, Value
from compiler.kernels.problems import Requantization

V16I8, V8I16, V4I32 = ir.VectorType(I8, 16), ir.VectorType(I16, 8), ir.VectorType(I32, 4)
V16I1, V8I1, V4I1 = (ir.VectorType(I1, lanes) for lanes in (16, 8, 4))
V8I8, V4I8 = ir.VectorType(I8, 8), ir.VectorType(I8, 4)
CHUNK = 16
"""Bytes in a vector."""


class Rounding(Enum):
    """How negative ties are brought to RoundingDivideByPOT's rounding."""

    CLAMPED = "c"
    """Not at all: the lower clamp is at or above the zero point, where -k and -(k + 1) both end."""
    SHIFTED = "s"
    """Every shift is to the right by one or more: one less for negative values."""
    MIXED = "m"
    """Some shifts are zero: one less for negative values only where there is a shift."""


@dataclass(frozen=True)
class RequantizeMode:
    """What a layer's requantisation needs beyond multiplication and shift; the proof is in the classmethod."""

    rounding: Rounding
    left: bool
    clamp: bool

    @classmethod
    def of(cls, r: Requantization) -> RequantizeMode:
        if r.minimum >= r.zero_point:
            rounding = Rounding.CLAMPED
        elif bool((r.shifts < 0).all()):
            rounding = Rounding.SHIFTED
        else:
            rounding = Rounding.MIXED
        return cls(rounding, bool((r.shifts > 0).any()), (r.minimum, r.maximum) != (-128, 127))

    @property
    def name(self) -> str:
        return self.rounding.value + "l" * self.left + "k" * self.clamp


@dataclass(frozen=True)
class OutputRange:
    """Zero point and clamp as loaded values; the limits are unused where the mode has no clamp."""

    zero_point: Value
    minimum: Value
    maximum: Value


@dataclass(frozen=True)
class Scale:
    """Multiplier, right shift (zero or negative), left shift and rounding flag (1 where the right shift is not zero,
    one channel a time only): i32 scalars of one channel, or <4 x i32> of four."""

    multiplier: Value
    right: Value
    left: Value | None
    flag: Value | None


def splat(f: Function, value: Value, kind: ir.VectorType) -> Value:
    """All lanes of `kind` set to a scalar; folded into the instruction that takes a scalar operand."""
    first = f.builder.insert_element(ir.Constant(kind, ir.Undefined), value, f.const(0))
    mask = ir.Constant(ir.VectorType(I32, kind.count), [0] * kind.count)
    return f.builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), mask)


def gather_lanes(f: Function, values: Sequence[Value]) -> Value:
    """Four i32 scalars as <4 x i32> (two VMOVs of two lanes)."""
    vector: Value = ir.Constant(V4I32, ir.Undefined)
    for lane, value in enumerate(values):
        vector = f.builder.insert_element(vector, value, f.const(lane))
    return vector


def load_chunk(f: Function, pointer: Value, offset: Operand = 0, words: bool = False, volatile: bool = False) -> Value:
    """16 bytes. `words` promises 4-byte alignment, which gives VLDRW its wider immediate offsets."""
    if not words:
        return f.load(V16I8, pointer, offset, align=1, volatile=volatile)
    return f.builder.bitcast(f.load(V4I32, pointer, offset, align=4, volatile=volatile), V16I8)


def dot(f: Function, accumulator: Value, a: Value, b: Value) -> Value:
    """accumulator + sum of the 16 signed byte products (VMLADAVA.S8)."""
    zero = f.const(0)
    return f.intrinsic("llvm.arm.mve.vmldava.v16i8", I32, [zero, zero, zero, accumulator, a, b])


def requantize(f: Function, mode: RequantizeMode, values: Value, scale: Scale, output: OutputRange) -> Value:
    """<4 x i32> accumulators to <4 x i32> whose low bytes are the quantised outputs."""
    values = f.add(scaled(f, mode, values, scale), splat(f, output.zero_point, V4I32))
    if mode.clamp:
        return f.minimum(f.maximum(values, splat(f, output.minimum, V4I32)), splat(f, output.maximum, V4I32))
    # Saturating to the low half, then to the low byte of each lane needs no vectors for the limits.
    narrow = narrow_words(f, f.builder.bitcast(values, V8I16), values, top=False)
    return f.builder.bitcast(narrow_halves(f, f.builder.bitcast(narrow, V16I8), narrow, top=False), V4I32)


def requantize_pair(
    f: Function, mode: RequantizeMode, even: Value, odd: Value, scales: tuple[Scale, Scale], output: OutputRange
) -> Value:
    """The accumulators of the even and of the odd lanes to <8 x i16> whose low bytes are the quantised outputs."""
    low = scaled(f, mode, even, scales[0])
    packed = narrow_words(f, ir.Constant(V8I16, ir.Undefined), low, top=False)
    packed = narrow_words(f, packed, scaled(f, mode, odd, scales[1]), top=True)

    def halves(value: Value) -> Value:
        return splat(f, f.trunc(value, I16), V8I16)

    packed = f.intrinsic("llvm.sadd.sat.v8i16", V8I16, [packed, halves(output.zero_point)])
    if mode.clamp:
        return f.minimum(f.maximum(packed, halves(output.minimum)), halves(output.maximum))
    return f.builder.bitcast(narrow_halves(f, f.builder.bitcast(packed, V16I8), packed, top=False), V8I16)


def scaled(f: Function, mode: RequantizeMode, values: Value, scale: Scale) -> Value:
    """MultiplyByQuantizedMultiplier of each lane."""
    lanes = isinstance(scale.multiplier.type, ir.VectorType)

    def operand(value: Value) -> Value:
        return value if lanes else splat(f, value, V4I32)

    if mode.left:
        assert scale.left is not None
        values = shifted(f, values, scale.left, rounding=False)
    values = f.intrinsic("llvm.arm.mve.vqrdmulh.v4i32", V4I32, [values, operand(scale.multiplier)])
    if mode.rounding is Rounding.SHIFTED:
        values = f.add(values, f.ashr(values, 31))
    elif mode.rounding is Rounding.MIXED:
        if lanes:
            values = f.add(values, f.ashr(f.and_(values, scale.right), 31))
        else:
            assert scale.flag is not None
            values = f.add(values, f.mul(f.ashr(values, 31), operand(scale.flag)))
    return shifted(f, values, scale.right, rounding=True)


def shifted(f: Function, values: Value, amount: Value, rounding: bool) -> Value:
    """VSHL or VRSHL: left by a positive amount, right by a negative one."""
    zero, rounds = f.const(0), f.const(int(rounding))
    if isinstance(amount.type, ir.VectorType):
        name = "llvm.arm.mve.vshl.vector.v4i32.v4i32"
    else:
        name = "llvm.arm.mve.vshl.scalar.v4i32"
    return f.intrinsic(name, V4I32, [values, amount, zero, rounds, zero])


def shifted_halves(f: Function, values: Value, amount: Value) -> Value:
    """VSHL.U16 of <8 x i16>: left by a positive amount, right (logical) by a negative one."""
    zero = f.const(0)
    return f.intrinsic("llvm.arm.mve.vshl.scalar.v8i16", V8I16, [values, amount, zero, zero, f.const(1)])


def narrow_words(f: Function, into: Value, words: Value, top: bool) -> Value:
    """VQMOVN.S32: saturates <4 x i32> into the even (or odd, `top`) lanes of <8 x i16>."""
    zero = f.const(0)
    return f.intrinsic("llvm.arm.mve.vqmovn.v8i16.v4i32", V8I16, [into, words, zero, zero, f.const(int(top))])


def narrow_halves(f: Function, into: Value, halves: Value, top: bool) -> Value:
    """VQMOVN.S16: saturates <8 x i16> into the even (or odd, `top`) lanes of <16 x i8>."""
    zero = f.const(0)
    return f.intrinsic("llvm.arm.mve.vqmovn.v16i8.v8i16", V16I8, [into, halves, zero, zero, f.const(int(top))])


def lane_offsets(f: Function, stride: Value) -> Value:
    """{0, 1, 2, 3} * stride as <4 x i32>."""
    return f.mul(ir.Constant(V4I32, [0, 1, 2, 3]), splat(f, stride, V4I32))


def lane_values(f: Function, kind: ir.VectorType, terms: Sequence[tuple[Sequence[int], Value]]) -> Value:
    """The sum of constant lanes times i32 scalars, e.g. addresses of lanes."""
    total: Value = ir.Constant(kind, [0] * kind.count)
    for lanes, scalar in terms:
        factor = f.trunc(scalar, kind.element) if kind.element != I32 else scalar
        total = f.add(total, f.mul(ir.Constant(kind, list(lanes)), splat(f, factor, kind)))
    return total


def store_strided(f: Function, values: Value, pointer: Value, offsets: Value, count: Value | None = None) -> None:
    """The low bytes of <4 x i32>, or of its first `count` lanes, to pointer + offsets (VSTRB.32 scatter)."""
    name, arguments = "llvm.arm.mve.vstr.scatter.offset", [pointer, offsets, values, f.const(8), f.const(0)]
    if count is None:
        f.intrinsic(f"{name}.p0.v4i32.v4i32", ir.VoidType(), arguments)
    else:
        mask = f.intrinsic("llvm.arm.mve.vctp32", V4I1, [count])
        f.intrinsic(f"{name}.predicated.p0.v4i32.v4i32.v4i1", ir.VoidType(), [*arguments, mask])


def store_four(f: Function, values: Value, pointer: Value) -> None:
    """The low bytes of <4 x i32> to four consecutive bytes (VSTRB.32)."""
    f.store(f.trunc(values, V4I8), pointer, align=1)


def store_eight(f: Function, values: Value, pointer: Value, count: Value | None = None) -> None:
    """The low bytes of <8 x i16>, or of its first `count` lanes, to consecutive bytes (VSTRB.16)."""
    low = f.trunc(values, V8I8)
    if count is None:
        f.store(low, pointer, align=1)
    else:
        mask = f.intrinsic("llvm.arm.mve.vctp16", V8I1, [count])
        f.intrinsic("llvm.masked.store.v8i8.p0", ir.VoidType(), [low, pointer, mask])


def load_eight(f: Function, pointer: Value, offset: Operand = 0, volatile: bool = False) -> Value:
    """Eight bytes sign-extended to <8 x i16> (VLDRB.S16)."""
    return f.sext(f.load(V8I8, pointer, offset, align=1, volatile=volatile), V8I16)


def multiply_long(f: Function, a: Value, b: Value, odd: bool) -> Value:
    """The products of the even or odd lanes of <8 x i16> vectors as <4 x i32> (VMULLB / VMULLT.S16)."""
    return f.intrinsic("llvm.arm.mve.vmull.v4i32.v8i16", V4I32, [a, b, f.const(0), f.const(int(odd))])


def gather_bytes(f: Function, pointer: Value, offsets: Value) -> Value:
    """Eight bytes at pointer + <8 x i16> unsigned offsets, zero-extended to <8 x i16> (VLDRB.U16 gather)."""
    name = "llvm.arm.mve.vldr.gather.offset.v8i16.p0.v8i16"
    return f.intrinsic(name, V8I16, [pointer, offsets, f.const(8), f.const(0), f.const(1)])


def insert_high(f: Function, low: Value, high: Value) -> Value:
    """Low bytes from `low`, high bytes from the low bytes of `high`, of <8 x i16> (VSLI.16)."""
    return f.intrinsic("llvm.arm.mve.vsli.v8i16", V8I16, [low, high, f.const(8)])


def store_interleaved(f: Function, first: Value, second: Value, pointer: Value) -> None:
    """The lanes of two <8 x i16> in turn, 32 bytes (VST20.16, VST21.16)."""
    for stage in range(2):
        f.intrinsic("llvm.arm.mve.vst2q.p0.v8i16", ir.VoidType(), [pointer, first, second, f.const(stage)])


def scatter_bytes(f: Function, values: Value, pointer: Value, offsets: Value) -> None:
    """The low bytes of <8 x i16> to pointer + <8 x i16> unsigned offsets (VSTRB.16 scatter)."""
    name = "llvm.arm.mve.vstr.scatter.offset.p0.v8i16.v8i16"
    f.intrinsic(name, ir.VoidType(), [pointer, offsets, values, f.const(8), f.const(0)])


def copy_bytes(f: Function, target: Value, source: Value, count: Operand) -> None:
    """Copies exactly `count` >= 1 bytes (tail-predicated loop)."""

    def body(_: Value, carried: list[Value]) -> list[Value]:
        to, frm, left = carried
        mask = f.intrinsic("llvm.arm.mve.vctp8", V16I1, [left])
        values = masked_load(f, frm, mask)
        masked_store(f, values, to, mask)
        return [f.offset(to, CHUNK), f.offset(frm, CHUNK), f.sub(left, CHUNK)]

    f.loop(_chunks(f, count), body, [target, source, f.value(count)])


def fill_bytes(f: Function, target: Value, value: Value, count: Operand) -> None:
    """Sets exactly `count` >= 1 bytes to the low byte of an i32."""
    vector = splat(f, f.trunc(value, I8), V16I8)

    def body(_: Value, carried: list[Value]) -> list[Value]:
        to, left = carried
        masked_store(f, vector, to, f.intrinsic("llvm.arm.mve.vctp8", V16I1, [left]))
        return [f.offset(to, CHUNK), f.sub(left, CHUNK)]

    f.loop(_chunks(f, count), body, [target, f.value(count)])


def _chunks(f: Function, count: Operand) -> Operand:
    return -(-count // CHUNK) if isinstance(count, int) else f.lshr(f.add(count, CHUNK - 1), 4)


def masked_load(f: Function, pointer: Value, mask: Value) -> Value:
    return f.intrinsic("llvm.masked.load.v16i8.p0", V16I8, [pointer, mask, ir.Constant(V16I8, ir.Undefined)])


def masked_store(f: Function, values: Value, pointer: Value, mask: Value) -> None:
    f.intrinsic("llvm.masked.store.v16i8.p0", ir.VoidType(), [values, pointer, mask])
