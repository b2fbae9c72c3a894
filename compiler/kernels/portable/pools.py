# SPDX-License-Identifier: Apache-2.0
"""Maximum and average pools of int8, int16 and float32 images.

An average's divisor is the number of cells inside the input, so it is a constant for each pair of runs; the division
is a multiplication by its reciprocal, exact for all sums that can occur, rounded half away from zero.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from compiler.codegen.builder import Value
from compiler.codegen.requantize import clamp
from compiler.isa import Isa, VectorIsa
from compiler.kernels.floats.functions import LARGEST
from compiler.kernels.floats.functions import clamp as float_clamp
from compiler.kernels.floats.powers import sqrt
from compiler.kernels.kernel import Constant, KernelCall, KernelFunction, Lowered
from compiler.kernels.overlap import of_pixels
from compiler.kernels.portable.loops import Element, lanes_of
from compiler.kernels.portable.windows import Patch, WindowKernel, grid, window_arguments
from compiler.kernels.problems import Window


@dataclass(frozen=True)
class PoolKernel(WindowKernel):
    """The pools' loop over blocks of `lanes` channels; `minimum` and `maximum` clamp the output (None: no clamp)."""

    element: Element
    lanes: int
    minimum: float | None
    maximum: float | None

    parameters: ClassVar[tuple[str, ...]] = (*WindowKernel.parameters, "blocks")

    @property
    def _suffix(self) -> str:
        bounds = "" if self.minimum is None else f"_{self.minimum}_{self.maximum}"
        return f"{self.element.value}_x{self.lanes}{bounds}".replace("-", "m").replace(".", "p")

    def window(self, f: KernelFunction, patch: Patch, output: Value, cut: Value) -> None:
        finish = self.divisor(f, cut)
        size = self.element.bytes

        def block(_: Value, carried: list[Value]) -> list[Value]:
            cell, output = carried
            values = self.taps(f, patch, cell, self.start(f, cell), lambda c, v: self.fold(f, c, v))
            for lane, value in enumerate(values):
                self.element.store(f, self.clamped(f, finish(value)), output, lane * size)
            return [f.offset(cell, self.lanes * size), f.offset(output, self.lanes * size)]

        f.loop(f.integer("blocks"), block, [patch.cell, output])

    def loaded(self, f: KernelFunction, cell: Value) -> list[Value]:
        return [self.element.load(f, cell, lane * self.element.bytes) for lane in range(self.lanes)]

    @abstractmethod
    def start(self, f: KernelFunction, cell: Value) -> list[Value]: ...

    @abstractmethod
    def fold(self, f: KernelFunction, cell: Value, values: list[Value]) -> list[Value]: ...

    def divisor(self, f: KernelFunction, cut: Value) -> Callable[[Value], Value]:
        return lambda value: value

    def clamped(self, f: KernelFunction, value: Value) -> Value:
        if self.minimum is None or self.maximum is None:
            return value
        if self.element is Element.FLOAT32:
            return float_clamp(f, value, self.minimum, self.maximum)
        return clamp(f, self.isa, value, int(self.minimum), int(self.maximum))


class MaxPoolKernel(PoolKernel):
    """The greatest value of each window, NaN left aside."""

    @property
    def name(self) -> str:
        return f"max_pool_{self._suffix}"

    def start(self, f: KernelFunction, cell: Value) -> list[Value]:
        if self.element is Element.FLOAT32:
            return [f.float(-LARGEST)] * self.lanes
        return self.loaded(f, cell)

    def fold(self, f: KernelFunction, cell: Value, values: list[Value]) -> list[Value]:
        return [self._greater(f, a, b) for a, b in zip(values, self.loaded(f, cell), strict=True)]

    def _greater(self, f: KernelFunction, a: Value, b: Value) -> Value:
        if self.element is Element.FLOAT32:
            return f.select(f.builder.fcmp_ordered("<", a, b), b, a)
        # b + max(a - b, 0): no overflow in 8 and 16 bits, no branch on any core.
        difference = f.sub(a, b)
        return f.add(b, f.and_(difference, f.xor(f.ashr(difference, 31), -1)))


@dataclass(frozen=True)
class AveragePoolKernel(PoolKernel):
    """The mean of each window's cells inside the input; of int8, ties go away from zero or (`ties_up`) up."""

    ties_up: bool = False

    parameters: ClassVar[tuple[str, ...]] = (*PoolKernel.parameters, "divisors")

    @property
    def name(self) -> str:
        return f"average_pool_{self._suffix}{'_up' if self.ties_up else ''}"

    def start(self, f: KernelFunction, cell: Value) -> list[Value]:
        return [f.float(0.0) if self.element is Element.FLOAT32 else f.const(0)] * self.lanes

    def fold(self, f: KernelFunction, cell: Value, values: list[Value]) -> list[Value]:
        add = f.builder.fadd if self.element is Element.FLOAT32 else f.add
        return [add(a, b) for a, b in zip(values, self.loaded(f, cell), strict=True)]

    def divisor(self, f: KernelFunction, cut: Value) -> Callable[[Value], Value]:
        entry = f.offset(f.pointer("divisors"), f.mul(cut, DIVISOR_BYTES))
        if self.element is Element.FLOAT32:
            count = Element.FLOAT32.load(f, entry)
            return lambda value: f.builder.fdiv(value, count)
        half, reciprocal, shift = (f.load_i32(entry, 4 * i) for i in range(3))
        return lambda total: divided(f, self.isa, self.ties_up, total, (half, reciprocal, shift))


def divided(f: KernelFunction, isa: Isa, ties_up: bool, total: Value, divisor: tuple[Value, Value, Value]) -> Value:
    """A sum by the words of `divisor_words`."""
    half, reciprocal, shift = divisor
    if ties_up:
        # `half` makes the sum positive: it has 128 for each cell more.
        quotient = isa.multiply_high(f, f.shl(f.add(total, half), 2), reciprocal)
        return f.sub(f.ashr(quotient, shift), BYTE_OFFSET)
    sign = f.ashr(total, 31)
    magnitude = f.add(f.sub(f.xor(total, sign), sign), half)
    quotient = f.ashr(isa.multiply_high(f, f.shl(magnitude, 2), reciprocal), shift)
    return f.sub(f.xor(quotient, sign), sign)


def divisor_words(count: int, ties_up: bool) -> tuple[int, int, int]:
    """What rounds, the reciprocal and its shift, for means of `count` integers."""
    return (count // 2 + (BYTE_OFFSET * count if ties_up else 0), *reciprocal(count))


class RootMeanSquarePoolKernel(AveragePoolKernel):
    """The square root of the mean square of each window's cells, in float32."""

    @property
    def name(self) -> str:
        return f"root_mean_square_pool_{self._suffix}"

    def fold(self, f: KernelFunction, cell: Value, values: list[Value]) -> list[Value]:
        return [f.fadd(a, f.fmul(b, b)) for a, b in zip(values, self.loaded(f, cell), strict=True)]

    def divisor(self, f: KernelFunction, cut: Value) -> Callable[[Value], Value]:
        divide = super().divisor(f, cut)
        return lambda total: sqrt(f, self.isa, divide(total))


DIVISOR_BYTES = 12
BYTE_OFFSET = 128
LARGEST_WINDOW = 1 << 13
"""Cells of an average's window for which sums stay under 2**29, as the division by reciprocal needs."""


def reciprocal(count: int) -> tuple[int, int]:
    """(multiplier, shift) with n // count == (4 * n * multiplier >> 32) >> shift for all 0 <= n < 2**29."""
    shift = count.bit_length() - 1
    return -(-(1 << 30 + shift) // count), shift


def max_pool(
    isa: Isa, w: Window, element: Element, clamp_to: tuple[float, float] | None, ties_up: bool = False
) -> Lowered:
    """The maximum pool of one image, clamped to `clamp_to` where given; it has no ties."""
    del ties_up
    if element is Element.INT8 and isinstance(isa, VectorIsa):
        return isa.max_pool(w, _integers(clamp_to))
    lanes = lanes_of(w.input_channels)
    kernel = MaxPoolKernel(isa, element, lanes, *(clamp_to or (None, None)))
    call = KernelCall(kernel, (*window_arguments(w, element.bytes), w.input_channels // lanes))
    return Lowered((call,), overlaps=(of_pixels(w, element.bytes),))


def average_pool(
    isa: Isa, w: Window, element: Element, clamp_to: tuple[float, float] | None, ties_up: bool = False
) -> Lowered:
    """The average pool of one image, clamped to `clamp_to` where given; int8 ties may go up. Windows have at most
    LARGEST_WINDOW cells."""
    if element is Element.INT8 and isinstance(isa, VectorIsa) and not ties_up:
        lowered = isa.average_pool(w, _integers(clamp_to))
        if lowered is not None:
            return lowered
    lanes = lanes_of(w.input_channels)
    lowest, highest = clamp_to or (None, None)
    return _averages(AveragePoolKernel(isa, element, lanes, lowest, highest, ties_up), w)


def root_mean_square_pool(
    isa: Isa, w: Window, element: Element, clamp_to: tuple[float, float] | None, ties_up: bool = False
) -> Lowered:
    """The root of the mean square of one float32 image's windows, clamped to `clamp_to` where given."""
    del ties_up
    lanes = lanes_of(w.input_channels)
    return _averages(RootMeanSquarePoolKernel(isa, element, lanes, *(clamp_to or (None, None))), w)


def _averages(kernel: AveragePoolKernel, w: Window) -> Lowered:
    element, cells = kernel.element, grid(w)
    counts = [row.taps * column.taps for row in cells.rows for column in cells.columns]
    if element is Element.FLOAT32:
        divisors = b"".join(struct.pack("<f2i", count, 0, 0) for count in counts)
    else:
        divisors = b"".join(struct.pack("<3i", *divisor_words(count, kernel.ties_up)) for count in counts)
    arguments = (*window_arguments(w, element.bytes), w.input_channels // kernel.lanes, Constant(divisors))
    return Lowered((KernelCall(kernel, arguments),), overlaps=(of_pixels(w, element.bytes),))


def _integers(bounds: tuple[float, float] | None) -> tuple[int, int] | None:
    return None if bounds is None else (int(bounds[0]), int(bounds[1]))
