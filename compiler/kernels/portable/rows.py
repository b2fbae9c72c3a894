# SPDX-License-Identifier: Apache-2.0
"""Kernels of rows that are normalised by what is found in them: int8 LOG_SOFTMAX, L2_NORMALIZATION."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from compiler.codegen.builder import F32, Value
from compiler.codegen.requantize import Multiplier, clamp, multiply_by_quantized_multiplier, rounding_divide
from compiler.isa import Isa
from compiler.kernels.floats.functions import float_bits
from compiler.kernels.floats.powers import sqrt
from compiler.kernels.kernel import INPUT, OUTPUT, Argument, Constant, KernelCall, KernelFunction, Lowered
from compiler.kernels.portable.fixed_point_ir import inverse_square_root, logarithm
from compiler.kernels.portable.softmax import SoftmaxKernel

EPSILON = 1e-6
"""The least norm that floats are divided by."""


@dataclass(frozen=True)
class ByteLogSoftmax(SoftmaxKernel):
    """int8 in, int8 steps of 1/16 from zero point 127 out; differences beyond the table share its last entry, 0."""

    parameters: ClassVar[tuple[str, ...]] = (
        "input", "output", "rows", "depth", "exponentials", "last", "multiplier", "left", "least", "reverse",
        "reverse_left", "reverse_right",
    )  # fmt: skip

    @property
    def name(self) -> str:
        return "log_softmax_s8"

    @property
    def element_bytes(self) -> tuple[int, int]:
        return 1, 1

    def row(self, f: KernelFunction, source: Value, target: Value) -> None:
        (largest,) = self.over(f, lambda p, c: [f.maximum(c[0], f.load_s8(p[0]))], [source], [1], [f.const(-128)])

        def add(pointers: list[Value], carried: list[Value]) -> list[Value]:
            index = f.minimum(f.sub(largest, f.load_s8(pointers[0])), f.integer("last"))
            power = f.load_i32(f.pointer("exponentials"), f.shl(index, 2))
            return [f.add(carried[0], f.lshr(f.add(power, 1 << 11), 12))]

        (total,) = self.over(f, add, [source], [1], [f.const(0)])
        log_sum = logarithm(f, self.isa, total)
        reverse = Multiplier(f.integer("reverse"), f.integer("reverse_left"), f.integer("reverse_right"))
        reach = multiply_by_quantized_multiplier(f, self.isa, f.add(log_sum, -(1 << 31)), reverse)
        least = f.maximum(f.integer("least"), reach)

        def finish(pointers: list[Value], _: list[Value]) -> list[Value]:
            difference = f.sub(f.load_s8(pointers[0]), largest)
            by = Multiplier(f.integer("multiplier"), f.integer("left"), 0)
            scaled = multiply_by_quantized_multiplier(f, self.isa, difference, by)
            result = f.add(rounding_divide(f, f.sub(scaled, log_sum), 31 - 5 - 4), 127)
            result = clamp(f, self.isa, result, -128, 127)
            f.store_i8(f.select(f.compare(">", difference, least), result, -128), pointers[1])
            return []

        self.over(f, finish, [source, target], [1, 1], [])


@dataclass(frozen=True)
class ByteL2(SoftmaxKernel):
    """int8 in, int8 steps of 1/128 out."""

    parameters: ClassVar[tuple[str, ...]] = ("input", "output", "rows", "depth", "zero_point")

    @property
    def name(self) -> str:
        return "l2_normalization_s8"

    @property
    def element_bytes(self) -> tuple[int, int]:
        return 1, 1

    def row(self, f: KernelFunction, source: Value, target: Value) -> None:
        def centred(pointer: Value) -> Value:
            return f.sub(f.load_s8(pointer), f.integer("zero_point"))

        def add(pointers: list[Value], carried: list[Value]) -> list[Value]:
            value = centred(pointers[0])
            return [f.add(carried[0], f.mul(value, value))]

        (total,) = self.over(f, add, [source], [1], [f.const(0)])
        multiplier, shift = inverse_square_root(f, self.isa, total)
        shift = f.add(shift, 7)
        by = Multiplier(multiplier, f.maximum(shift, 0), f.maximum(f.sub(0, shift), 0))

        def scale(pointers: list[Value], _: list[Value]) -> list[Value]:
            result = multiply_by_quantized_multiplier(f, self.isa, centred(pointers[0]), by, small=True)
            f.store_i8(clamp(f, self.isa, result, -128, 127), pointers[1])
            return []

        self.over(f, scale, [source, target], [1, 1], [])


@dataclass(frozen=True)
class FloatL2(SoftmaxKernel):
    """float32 in and out."""

    parameters: ClassVar[tuple[str, ...]] = ("input", "output", "rows", "depth", "epsilon")

    @property
    def name(self) -> str:
        return "l2_normalization_f32"

    @property
    def element_bytes(self) -> tuple[int, int]:
        return 4, 4

    def row(self, f: KernelFunction, source: Value, target: Value) -> None:
        def add(pointers: list[Value], carried: list[Value]) -> list[Value]:
            value = f.load(F32, pointers[0])
            return [f.fadd(carried[0], f.fmul(value, value))]

        (total,) = self.over(f, add, [source], [4], [f.float(0.0)])
        norm, epsilon = sqrt(f, self.isa, total), f.from_bits(f.integer("epsilon"))
        norm = f.select(f.fcompare("<", norm, epsilon), epsilon, norm)

        def divide(pointers: list[Value], _: list[Value]) -> list[Value]:
            f.store(f.fdiv(f.load(F32, pointers[0]), norm), pointers[1])
            return []

        self.over(f, divide, [source, target], [4, 4], [])


def byte_log_softmax(
    isa: Isa, rows: int, depth: int, exponentials: NDArray[np.int64], least: int, numbers: Sequence[int]
) -> Lowered:
    """int8 rows. `exponentials` [256] is exp of each difference to the row's maximum in Q0; differences up to `least`
    give -128; `numbers` are the multiplier and left shift to Q5, then multiplier, left and right shift back."""
    last = max(int(np.flatnonzero(exponentials)[-1]) + 1, 1)
    table = Constant(np.append(exponentials, 0)[: last + 1].astype("<i4").tobytes())
    multiplier, left, *reverse = numbers
    arguments: tuple[Argument, ...] = (INPUT, OUTPUT, rows, depth, table, last, multiplier, left, least, *reverse)
    return Lowered((KernelCall(ByteLogSoftmax(isa), arguments),))


def byte_l2(isa: Isa, rows: int, depth: int, zero_point: int) -> Lowered:
    """int8 rows divided by their norm."""
    return Lowered((KernelCall(ByteL2(isa), (INPUT, OUTPUT, rows, depth, zero_point)),))


def float_l2(isa: Isa, rows: int, depth: int) -> Lowered:
    """float rows divided by their norm, or by the epsilon where that is larger."""
    return Lowered((KernelCall(FloatL2(isa), (INPUT, OUTPUT, rows, depth, float_bits(EPSILON))),))
