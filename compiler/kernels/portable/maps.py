# SPDX-License-Identifier: Apache-2.0
"""Kernels that map each element by itself: byte tables, float functions, int16 sigmoids, float conversions."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from compiler.codegen.builder import F32, I8, I16, Value
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.floats.functions import FloatFunction, float_bits, round_half_away
from compiler.kernels.kernel import INPUT, OUTPUT, Argument, Constant, KernelCall, KernelFunction, Lowered, Place
from compiler.kernels.overlap import elementwise
from compiler.kernels.portable.loops import PortableKernel

SIGMOID_STEPS = 256
_STORAGE = {1: I8, 2: I16}


def byte_map(
    isa: Isa,
    count: int,
    table: NDArray[np.int8] | NDArray[np.uint8],
    source: Place = INPUT,
    target: Place = OUTPUT,
) -> Lowered:
    """`count` bytes through `table` [256], indexed by the source's bit pattern."""
    constant, calls = Constant(table.tobytes(), 1), []
    for lanes, first, part in ((4, 0, count // 4 * 4), (1, count // 4 * 4, count % 4)):
        if part:
            places = tuple(replace(place, offset=place.offset + first) for place in (source, target))
            calls.append(KernelCall(ByteMap(isa, lanes), (*places, part, constant)))
    alone = (source, target) == (INPUT, OUTPUT)
    return Lowered(tuple(calls), overlaps=(elementwise(count, 1, 1),) if alone else ())


def float_map(isa: Isa, count: int, function: FloatFunction) -> Lowered:
    """`count` floats through a function."""
    return _mapped(KernelCall(FloatMap(isa, function), (INPUT, OUTPUT, count)), count)


def sigmoid_map(isa: Isa, count: int, multiplier: int, shift: int, is_tanh: bool) -> Lowered:
    """`count` int16 through the logistic function or tanh; (input * multiplier) >> shift is in steps of 1/12288."""
    table = Constant(sigmoid_table().astype("<u2").tobytes(), 2)
    rounding = 1 << (shift - 1) if shift else 0
    arguments = (INPUT, OUTPUT, count, table, multiplier, rounding, shift)
    return _mapped(KernelCall(SigmoidMap(isa, is_tanh), arguments), count)


def dequantize(isa: Isa, count: int, source: DType, scale: float, zero_point: int) -> Lowered:
    """`count` quantised elements to float: scale * (q - zero_point), rounded once."""
    kernel = Dequantize(isa, source.bytes, source.name.startswith("INT"))
    return _mapped(KernelCall(kernel, (INPUT, OUTPUT, count, _signed_bits(scale), zero_point)), count)


def quantize(isa: Isa, count: int, target: DType, scale: float, zero_point: int) -> Lowered:
    """`count` floats to quantised elements: round(x / scale) + zero_point, ties away from zero, saturated."""
    bits = np.iinfo(target.numpy)
    arguments: tuple[Argument, ...] = (
        INPUT,
        OUTPUT,
        count,
        _signed_bits(scale),
        zero_point,
        int(bits.min),
        int(bits.max),
    )
    return _mapped(KernelCall(Quantize(isa, target.bytes), arguments), count)


def _mapped(call: KernelCall, count: int) -> Lowered:
    assert isinstance(call.kernel, MapKernel)
    return Lowered((call,), overlaps=(elementwise(count, *call.kernel.sizes),))


@cache
def sigmoid_table() -> NDArray[np.uint16]:
    """The reference's sigmoid(i / 24) * 65536: each sample is raised by half of what linear interpolation misses in
    the middle of the step behind it, and the last is 65535."""

    def at(i: float) -> float:
        return 65536 / (1 + math.exp(-i / 24))

    raised = (at(i) + (at(i + 0.5) - (at(i) + at(i + 1)) / 2) / 2 for i in range(SIGMOID_STEPS - 1))
    return np.array([*(math.floor(v + 0.5) for v in raised), 65535], np.uint16)


def _signed_bits(value: float) -> int:
    bits = float_bits(value)
    return bits - (1 << 32) if bits >> 31 else bits


@dataclass(frozen=True)
class MapKernel(PortableKernel):
    """The walk: `lanes` elements at a time, each stored by `element(source, target)`."""

    @property
    def lanes(self) -> int:
        """Elements a step; the count is a multiple of them."""
        return 1

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, int]:
        """Bytes of an input and an output element."""

    @abstractmethod
    def element(self, f: KernelFunction, source: Value, target: Value, lane: int) -> None: ...

    def build(self, f: KernelFunction) -> None:
        source_bytes, target_bytes = self.sizes
        source = f.pointer("input")
        end = f.offset(source, f.mul(f.integer("count"), source_bytes))

        def body(source: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            for lane in range(self.lanes):
                self.element(f, source, carried[0], lane)
            return f.offset(source, self.lanes * source_bytes), [f.offset(carried[0], self.lanes * target_bytes)]

        f.loop_until(end, source, body, [f.pointer("output")])


@dataclass(frozen=True)
class ByteMap(MapKernel):
    """A table of 256 bytes."""

    step: int

    parameters: ClassVar[tuple[str, ...]] = ("input", "output", "count", "table")

    @property
    def name(self) -> str:
        return f"byte_map_x{self.step}"

    @property
    def lanes(self) -> int:
        return self.step

    @property
    def sizes(self) -> tuple[int, int]:
        return 1, 1

    def element(self, f: KernelFunction, source: Value, target: Value, lane: int) -> None:
        f.store(f.load(I8, f.offset(f.pointer("table"), f.load_u8(source, lane))), target, lane)


@dataclass(frozen=True)
class FloatMap(MapKernel):
    """A float function."""

    function: FloatFunction

    parameters: ClassVar[tuple[str, ...]] = ("input", "output", "count")

    @property
    def name(self) -> str:
        return f"float_{self.function.value}"

    @property
    def sizes(self) -> tuple[int, int]:
        return 4, 4

    def element(self, f: KernelFunction, source: Value, target: Value, lane: int) -> None:
        f.store(self.function.emit(f, self.isa, f.load(F32, source)), target)


def sigmoid_curve(f: KernelFunction, scaled: Value, samples: Value, is_tanh: bool) -> Value:
    """The logistic function or tanh, in steps of 1/32768, of an i32 in steps of 1/12288. `samples` is the address of
    `sigmoid_table`.

    Source: TensorFlow Lite, kernels/internal/reference/integer_ops/{logistic,tanh}.h.
    """
    sign = f.ashr(scaled, 31)
    magnitude = f.sub(f.xor(scaled, sign), sign)
    step_bits = 8 if is_tanh else 9
    index = f.lshr(magnitude, step_bits)
    saturated = f.compare_unsigned(">=", index, SIGMOID_STEPS - 1)
    entry = f.offset(samples, f.shl(f.select(saturated, 0, index), 1))
    below, above = (f.zext(f.load(I16, entry, offset)) for offset in (0, 2))
    between = f.mul(f.sub(above, below), f.and_(magnitude, (1 << step_bits) - 1))
    curve = f.add(f.shl(below, step_bits), between)
    curve = f.select(saturated, 0xFFFF << 8 if is_tanh else 0x7FFF << 10, curve)
    # A negative input takes the mirrored curve; ties round upwards on both sides, less one unit on this one.
    if is_tanh:
        curve = f.sub(curve, 1 << 23)
        mirrored = f.sub(f.xor(curve, sign), sign)
        return f.ashr(f.add(f.add(mirrored, 1 << 7), sign), 8)
    mirrored = f.select(f.compare("<", scaled, 0), f.sub((1 << 25) - 1, curve), curve)
    return f.lshr(f.add(mirrored, 1 << 9), 10)


@dataclass(frozen=True)
class SigmoidMap(MapKernel):
    """int16 logistic or tanh by linear interpolation in the reference's table of 256.

    Source: TensorFlow Lite, kernels/internal/reference/integer_ops/{logistic,tanh}.h.
    """

    is_tanh: bool

    parameters: ClassVar[tuple[str, ...]] = ("input", "output", "count", "table", "multiplier", "rounding", "shift")

    @property
    def name(self) -> str:
        return "tanh_s16" if self.is_tanh else "logistic_s16"

    @property
    def sizes(self) -> tuple[int, int]:
        return 2, 2

    def element(self, f: KernelFunction, source: Value, target: Value, lane: int) -> None:
        scaled = f.add(f.mul(f.load_s16(source), f.integer("multiplier")), f.integer("rounding"))
        scaled = f.ashr(scaled, f.integer("shift"))
        result = sigmoid_curve(f, scaled, f.pointer("table"), self.is_tanh)
        f.store_i16(result, target)


@dataclass(frozen=True)
class Dequantize(MapKernel):
    """Integers of one or two bytes to float; the product of a float and an integer of 17 bits is rounded once."""

    bytes: int
    signed: bool

    parameters: ClassVar[tuple[str, ...]] = ("input", "output", "count", "scale", "zero_point")

    @property
    def name(self) -> str:
        return f"dequantize_{'s' if self.signed else 'u'}{8 * self.bytes}"

    @property
    def sizes(self) -> tuple[int, int]:
        return self.bytes, 4

    def element(self, f: KernelFunction, source: Value, target: Value, lane: int) -> None:
        raw = f.load(_STORAGE[self.bytes], source)
        value = f.sub(f.sext(raw) if self.signed else f.zext(raw), f.integer("zero_point"))
        f.store(f.fmul(f.to_float(value), f.from_bits(f.integer("scale"))), target)


@dataclass(frozen=True)
class Quantize(MapKernel):
    """Floats to integers of one or two bytes."""

    bytes: int

    parameters: ClassVar[tuple[str, ...]] = ("input", "output", "count", "scale", "zero_point", "minimum", "maximum")

    @property
    def name(self) -> str:
        return f"quantize_{8 * self.bytes}"

    @property
    def sizes(self) -> tuple[int, int]:
        return 4, self.bytes

    def element(self, f: KernelFunction, source: Value, target: Value, lane: int) -> None:
        x = f.load(F32, source)
        steps = f.fdiv(x, f.from_bits(f.integer("scale")))
        value = f.add(round_half_away(f, steps, signed=x), f.integer("zero_point"))
        value = f.minimum(f.maximum(value, f.integer("minimum")), f.integer("maximum"))
        f.store(f.trunc(value, _STORAGE[self.bytes]), target)
