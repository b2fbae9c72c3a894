# SPDX-License-Identifier: Apache-2.0
"""FULLY_CONNECTED of legacy uint8 models, whose reference rescales in double precision: round(sum * scale), ties away
from zero.

On the device one 64-bit product does it: ((sum << left) * multiplier + constant - (1 if sum < 0)) >> shift. The
constants are proven when the model is compiled: the form steps from one output value to the next at the same sums as
the reference.

Source: LiteRT 2.3, kernels/fully_connected.cc; the rounding was determined by comparing outputs, ties included.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from compiler.codegen.builder import I32, I64, Value
from compiler.codegen.requantize import clamp
from compiler.isa import Isa
from compiler.kernels.kernel import INPUT, OUTPUT, Constant, KernelCall, KernelFunction, Lowered
from compiler.kernels.portable.loops import PortableKernel

LARGEST_DIFFERENCE = 255
FARTHEST = 8


@dataclass(frozen=True, eq=False)
class ByteFullyConnected:
    """`batches` rows of int8 activations times weights [outputs, depth] (int8), bias int64 values [outputs];
    output = clamp(round(sum * scale) + zero_point, minimum, maximum), the product in double precision."""

    batches: int
    weights: NDArray[np.int8]
    bias: NDArray[np.int64]
    input_zero_point: int
    filter_zero_point: int
    scale: float
    zero_point: int
    minimum: int
    maximum: int

    @property
    def greatest_sum(self) -> int:
        """A bound of the magnitude of all sums."""
        weights = np.abs(self.weights.astype(np.int64) - self.filter_zero_point).sum(axis=1)
        return int((np.abs(self.bias) + weights * LARGEST_DIFFERENCE).max())


@dataclass(frozen=True)
class Scaling:
    """((sum << left) * multiplier + constant - (1 if sum < 0)) >> shift; shift is at least 32."""

    multiplier: int
    constant: int
    left: int
    shift: int


def reference(layer: ByteFullyConnected, x: NDArray[np.int8]) -> NDArray[np.int64]:
    """x [batches, depth] -> [batches, outputs]."""
    weights = layer.weights.astype(np.int64) - layer.filter_zero_point
    sums = (x.astype(np.int64) - layer.input_zero_point) @ weights.T + layer.bias
    real = sums.astype(np.float64) * layer.scale
    rounded = np.copysign(np.floor(np.abs(real) + 0.5), real).astype(np.int64)
    return np.clip(rounded + layer.zero_point, layer.minimum, layer.maximum)


def scaling(layer: ByteFullyConnected) -> Scaling | None:
    """A form that is exact for all sums of the layer, or None where there is none."""
    mantissa, exponent = math.frexp(layer.scale)
    left = max(0, exponent + 2)
    shift = 30 - exponent + left
    if layer.greatest_sum << left >= 1 << 31 or shift > 62:
        return None
    steps = tuple(_steps(layer))
    near = round(mantissa * (1 << 30))
    for distance in sorted(range(-FARTHEST, FARTHEST + 1), key=abs):
        multiplier, factor = near + distance, near + distance << left
        low, high = -(1 << 62), 1 << 62
        for value, start in steps:
            edge = value << shift
            low = max(low, edge - start * factor + (start < 0))
            high = min(high, edge - 1 - (start - 1) * factor + (start - 1 < 0))
        if low <= high and multiplier < 1 << 31:
            return Scaling(multiplier, min(max(1 << (shift - 1), low), high), left, shift)
    return None


def _steps(layer: ByteFullyConnected) -> Iterator[tuple[int, int]]:
    """(v, s) for each output value v before the zero point: s is the least sum that gives at least v."""
    bound = layer.greatest_sum
    for value in range(layer.minimum - layer.zero_point + 1, layer.maximum - layer.zero_point + 1):
        start = math.floor((value - 0.5) / layer.scale) - 2
        while _round(start * layer.scale) < value:
            start += 1
        if -bound < start <= bound:
            yield value, start


def _round(real: float) -> int:
    return int(math.copysign(math.floor(abs(real) + 0.5), real))


@dataclass(frozen=True)
class ByteRows(PortableKernel):
    """Rows times weights, an output at a time."""

    parameters: ClassVar[tuple[str, ...]] = (
        "input", "output", "weights", "biases", "rows", "outputs", "depth", "input_zero_point", "filter_zero_point",
        "multiplier", "constant_low", "constant_high", "left", "shift", "zero_point", "minimum", "maximum",
    )  # fmt: skip

    @property
    def name(self) -> str:
        return "fully_connected_uint8"

    def build(self, f: KernelFunction) -> None:
        depth, outputs = f.integer("depth"), f.integer("outputs")
        source_zero, filter_zero = f.integer("input_zero_point"), f.integer("filter_zero_point")

        def element(weights: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            cell, total = carried
            product = f.mul(f.sub(f.load_s8(cell), source_zero), f.sub(f.load_s8(weights), filter_zero))
            return f.offset(weights, 1), [f.offset(cell, 1), f.add(total, product)]

        def row(_: Value, carried: list[Value]) -> list[Value]:
            source, output = carried

            def channel(_: Value, carried: list[Value]) -> list[Value]:
                weights, bias, output = carried
                end = f.offset(weights, depth)
                _, (_, total) = f.loop_until(end, weights, element, [source, f.load_i32(bias)])
                f.store_i8(self._finish(f, total), output)
                return [end, f.offset(bias, 4), f.offset(output, 1)]

            *_, output = f.loop(outputs, channel, [f.pointer("weights"), f.pointer("biases"), output])
            return [f.offset(source, depth), output]

        f.loop(f.integer("rows"), row, [f.pointer("input"), f.pointer("output")])

    def _finish(self, f: KernelFunction, total: Value) -> Value:
        low, high = f.zext(f.integer("constant_low"), I64), f.zext(f.integer("constant_high"), I64)
        product = f.mul(f.sext(f.shl(total, f.integer("left")), I64), f.sext(f.integer("multiplier"), I64))
        product = f.add(product, f.or_(low, f.shl(high, 32)))
        product = f.add(product, f.sext(f.ashr(total, 31), I64))
        upper = f.trunc(f.ashr(product, 32), I32)
        value = clamp(f, self.isa, f.ashr(upper, f.integer("shift")), f.integer("minimum"), f.integer("maximum"))
        return f.add(value, f.integer("zero_point"))


def lower(isa: Isa, layer: ByteFullyConnected) -> Lowered:
    """The layer as a kernel call; `scaling` of it must exist."""
    found = scaling(layer)
    if found is None:
        raise ValueError("the layer's rescaling has no exact form")
    outputs, depth = layer.weights.shape
    arguments = (
        INPUT, OUTPUT, Constant(np.ascontiguousarray(layer.weights).tobytes()),
        Constant(layer.bias.astype("<i4").tobytes()), layer.batches, outputs, depth, layer.input_zero_point,
        layer.filter_zero_point, found.multiplier, _word(found.constant), _word(found.constant >> 32),
        found.left, found.shift - 32, layer.zero_point, layer.minimum - layer.zero_point,
        layer.maximum - layer.zero_point,
    )  # fmt: skip
    return Lowered((KernelCall(ByteRows(isa), arguments),), macs=layer.batches * outputs * depth)


def _word(value: int) -> int:
    """The low 32 bits as a signed number."""
    return ((value + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)
