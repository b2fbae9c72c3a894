# SPDX-License-Identifier: Apache-2.0
"""Softmax kernels: bytes through a table of exponentials, int16 through the reference's tables, float."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from compiler.codegen.builder import I8, I16, Value
from compiler.codegen.requantize import Multiplier, doubling_high_multiply, multiply_by_quantized_multiplier
from compiler.fixed_point import table_of
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.floats.functions import exp, float_bits, log
from compiler.kernels.kernel import INPUT, OUTPUT, CompileOptions, Constant, Kernel, KernelCall, KernelFunction, Lowered
from compiler.kernels.portable.fixed_point_ir import leading_zeros, one_over_one_plus, rounding_shift


def byte_softmax(
    isa: Isa, rows: int, depth: int, exponentials: NDArray[np.int64], source: DType, output: DType
) -> Lowered:
    """int8 or uint8 rows. `exponentials` [256] is exp of each difference to the row's maximum in Q0."""
    last = max(int(np.flatnonzero(exponentials)[-1]) + 1, 1)
    table = np.append(exponentials, 0)[: last + 1].astype("<i4")
    kernel = ByteSoftmax(isa, source is DType.INT8, 8 * output.bytes, output is not DType.UINT8)
    return Lowered((KernelCall(kernel, (INPUT, OUTPUT, rows, depth, Constant(table.tobytes()), last)),))


def int16_softmax(isa: Isa, rows: int, depth: int, multiplier: int, shift: int) -> Lowered:
    """int16 rows; (multiplier, shift) maps a difference to -65535..0 for -10..0."""
    powers, reciprocals = (Constant(t.astype("<i2").tobytes()) for t in (exp_table(), reciprocal_table()))
    shifts = max(shift, 0), max(-shift, 0)
    return Lowered(
        (KernelCall(Int16Softmax(isa), (INPUT, OUTPUT, rows, depth, powers, reciprocals, multiplier, *shifts)),)
    )


def float_softmax(isa: Isa, rows: int, depth: int, beta: float) -> Lowered:
    """float32 rows."""
    return Lowered((KernelCall(FloatSoftmax(isa), (INPUT, OUTPUT, rows, depth, float_bits(beta))),))


def float_log_softmax(isa: Isa, rows: int, depth: int) -> Lowered:
    """float32 rows."""
    return Lowered((KernelCall(FloatLogSoftmax(isa), (INPUT, OUTPUT, rows, depth)),))


@cache
def exp_table() -> NDArray[np.int16]:
    """exp from -10 to 0 as the reference samples it."""
    return table_of(math.exp, -10.0, 0.0)


@cache
def reciprocal_table() -> NDArray[np.int16]:
    """1 / (1 + x) from 0 to 1 as the reference samples it."""
    return table_of(lambda x: float(np.float32(1) / (np.float32(1) + np.float32(x))), 0.0, 1.0)


@dataclass(frozen=True)
class SoftmaxKernel(Kernel):
    """The walk over rows; `row` handles one and is given its input and output."""

    isa: Isa

    @property
    def options(self) -> CompileOptions:  # type: ignore[override]
        return self.isa.options

    def build(self, f: KernelFunction) -> None:
        def row(_: Value, carried: list[Value]) -> list[Value]:
            source, target = carried
            self.row(f, source, target)
            in_bytes, out_bytes = self.element_bytes
            return [
                f.offset(source, f.mul(f.integer("depth"), in_bytes)),
                f.offset(target, f.mul(f.integer("depth"), out_bytes)),
            ]

        f.loop(f.integer("rows"), row, [f.pointer("input"), f.pointer("output")])

    @abstractmethod
    def row(self, f: KernelFunction, source: Value, target: Value) -> None: ...

    @property
    @abstractmethod
    def element_bytes(self) -> tuple[int, int]:
        """Bytes of an input and an output element."""

    def over(self, f: KernelFunction, body: Any, pointers: list[Value], steps: list[int], carried: list[Value]) -> Any:
        """Walks the row: `body(pointers, carried) -> carried`; the pointers advance by `steps` bytes."""
        count = len(pointers)

        def element(_: Value, state: list[Value]) -> list[Value]:
            after = body(state[:count], state[count:])
            return [*(f.offset(p, s) for p, s in zip(state, steps, strict=False)), *after]

        return f.loop(f.integer("depth"), element, [*pointers, *carried])[count:]


@dataclass(frozen=True)
class ByteSoftmax(SoftmaxKernel):
    """int8 or uint8 in, int8, uint8 or int16 out. Differences beyond the table's last entry, a zero, share it."""

    signed_input: bool
    output_bits: int
    signed_output: bool

    parameters: ClassVar[tuple[str, ...]] = ("input", "output", "rows", "depth", "exponentials", "last")

    @property
    def name(self) -> str:
        return f"softmax_{'s' if self.signed_input else 'u'}8_{'s' if self.signed_output else 'u'}{self.output_bits}"

    @property
    def element_bytes(self) -> tuple[int, int]:
        return 1, self.output_bits // 8

    def row(self, f: KernelFunction, source: Value, target: Value) -> None:
        load = f.load_s8 if self.signed_input else f.load_u8
        (largest,) = self.over(f, lambda p, c: [f.maximum(c[0], load(p[0]))], [source], [1], [f.const(-128)])

        def exponential(pointer: Value) -> Value:
            index = f.minimum(f.sub(largest, load(pointer)), f.integer("last"))
            return f.load_i32(f.pointer("exponentials"), f.shl(index, 2))

        def add(pointers: list[Value], carried: list[Value]) -> list[Value]:
            return [f.add(carried[0], f.lshr(f.add(exponential(pointers[0]), 1 << 11), 12))]

        (total,) = self.over(f, add, [source], [1], [f.const(0)])
        headroom = leading_zeros(f, total)
        scale = one_over_one_plus(f, self.isa, f.xor(f.shl(total, headroom), -(1 << 31)))
        exponent = f.minimum(f.sub(12 + 31 - self.output_bits, headroom), 31)
        lowest = -(1 << (self.output_bits - 1)) if self.signed_output else 0

        def scaled(pointers: list[Value], _: list[Value]) -> list[Value]:
            product = doubling_high_multiply(f, self.isa, scale, exponential(pointers[0]))
            result = f.minimum(rounding_shift(f, product, exponent), (1 << self.output_bits) - 1)
            f.store(f.trunc(f.add(result, lowest), I8 if self.output_bits == 8 else I16), pointers[1])
            return []

        self.over(f, scaled, [source, target], list(self.element_bytes), [])


@dataclass(frozen=True)
class Int16Softmax(SoftmaxKernel):
    """int16 in and out; the exponentials wait in the output."""

    parameters: ClassVar[tuple[str, ...]] = (
        "input", "output", "rows", "depth", "exp_table", "reciprocal_table", "multiplier", "left_shift", "right_shift",
    )  # fmt: skip

    @property
    def name(self) -> str:
        return "softmax_s16"

    @property
    def element_bytes(self) -> tuple[int, int]:
        return 2, 2

    def row(self, f: KernelFunction, source: Value, target: Value) -> None:
        (largest,) = self.over(f, lambda p, c: [f.maximum(c[0], f.load_s16(p[0]))], [source], [2], [f.const(-32768)])

        def add(pointers: list[Value], carried: list[Value]) -> list[Value]:
            by = Multiplier(f.integer("multiplier"), f.integer("left_shift"), f.integer("right_shift"))
            difference = f.sub(f.load_s16(pointers[0]), largest)
            scaled = multiply_by_quantized_multiplier(f, self.isa, difference, by)
            result = self._look_up(f, "exp_table", f.maximum(f.add(scaled, 32767), -32768))
            f.store_i16(result, pointers[1])
            return [f.add(carried[0], result)]

        (total,) = self.over(f, add, [source, target], [2, 2], [f.const(0)])
        headroom = leading_zeros(f, total)
        shifted = f.lshr(f.add(f.shl(total, f.sub(headroom, 1)), 1 << 13), 14)
        inside = f.minimum(f.maximum(f.sub(shifted, 98304), -32768), 32767)
        reciprocal = self._look_up(f, "reciprocal_table", inside)
        right = f.sub(31, headroom)

        def rescale(pointers: list[Value], _: list[Value]) -> list[Value]:
            result = rounding_shift(f, f.mul(f.load_s16(pointers[0]), reciprocal), right)
            f.store_i16(f.minimum(result, 32767), pointers[0])
            return []

        self.over(f, rescale, [target], [2], [])

    def _look_up(self, f: KernelFunction, table: str, value: Value) -> Value:
        """Linear interpolation in a table of 513 for an int16 value."""
        entry = f.offset(f.pointer(table), f.shl(f.add(f.ashr(value, 7), 256), 1))
        base = f.load_s16(entry)
        slope = f.sub(f.load_s16(entry, 2), base)
        return f.add(base, f.ashr(f.add(f.mul(slope, f.and_(value, 127)), 64), 7))


@dataclass(frozen=True)
class FloatSoftmax(SoftmaxKernel):
    """float32 in and out; the exponentials wait in the output."""

    parameters: ClassVar[tuple[str, ...]] = ("input", "output", "rows", "depth", "beta")

    @property
    def name(self) -> str:
        return "softmax_f32"

    @property
    def element_bytes(self) -> tuple[int, int]:
        return 4, 4

    def row(self, f: KernelFunction, source: Value, target: Value) -> None:
        largest = _largest(f, self, source)
        beta = f.from_bits(f.integer("beta"))

        def add(pointers: list[Value], carried: list[Value]) -> list[Value]:
            power = exp(f, self.isa, f.fmul(f.fsub(f.load_f32(pointers[0]), largest), beta))
            f.store(power, pointers[1])
            return [f.fadd(carried[0], power)]

        (total,) = self.over(f, add, [source, target], [4, 4], [f.float(0.0)])

        def divide(pointers: list[Value], _: list[Value]) -> list[Value]:
            f.store(f.fdiv(f.load_f32(pointers[0]), total), pointers[0])
            return []

        self.over(f, divide, [target], [4], [])


@dataclass(frozen=True)
class FloatLogSoftmax(SoftmaxKernel):
    """float32 in and out: (x - largest) - log(sum of exp(x - largest))."""

    parameters: ClassVar[tuple[str, ...]] = ("input", "output", "rows", "depth")

    @property
    def name(self) -> str:
        return "log_softmax_f32"

    @property
    def element_bytes(self) -> tuple[int, int]:
        return 4, 4

    def row(self, f: KernelFunction, source: Value, target: Value) -> None:
        largest = _largest(f, self, source)

        def add(pointers: list[Value], carried: list[Value]) -> list[Value]:
            return [f.fadd(carried[0], exp(f, self.isa, f.fsub(f.load_f32(pointers[0]), largest)))]

        (total,) = self.over(f, add, [source], [4], [f.float(0.0)])
        logarithm = log(f, self.isa, total)

        def subtract(pointers: list[Value], _: list[Value]) -> list[Value]:
            f.store(f.fsub(f.fsub(f.load_f32(pointers[0]), largest), logarithm), pointers[1])
            return []

        self.over(f, subtract, [source, target], [4, 4], [])


def _largest(f: KernelFunction, kernel: SoftmaxKernel, source: Value) -> Value:
    """The largest float of a row."""

    def larger(pointers: list[Value], carried: list[Value]) -> list[Value]:
        return [f.maximum(carried[0], _ordered(f, f.load_i32(pointers[0])))]

    (key,) = kernel.over(f, larger, [source], [4], [f.const(_LOWEST_FLOAT_KEY)])
    return f.from_bits(_ordered(f, key))


def _ordered(f: KernelFunction, bits: Value) -> Value:
    """Float bits to integers of the same order, and back."""
    return f.xor(bits, f.lshr(f.ashr(bits, 31), 1))


_LOWEST_FLOAT_KEY = (0xFF7FFFFF ^ 0x7FFFFFFF) - (1 << 32)
