# SPDX-License-Identifier: Apache-2.0
"""Hybrid layers: the kernels that quantise float inputs at run time, and the window over quantised inputs.

Scratch memory holds the input's scale in its first word, and the quantised input from `DATA_OFFSET` on.

Source: TensorFlow Lite, kernels/internal/reference/portable_tensor_utils.cc (SymmetricQuantizeFloats,
AsymmetricQuantizeFloats), reference/conv.h (HybridConvPerChannel), reference/integer_ops/depthwise_conv.h
(DepthwiseConvHybridPerChannel), kernels/fully_connected.cc (EvalHybrid).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from llvmlite import ir

from compiler.codegen.builder import F32, F64, I8, I32, Value
from compiler.kernels.floats.functions import SIGN, clamp, float_bits, round_half_away
from compiler.kernels.kernel import KernelFunction
from compiler.kernels.portable.loops import PortableKernel
from compiler.kernels.portable.window_walk import FLOAT_BYTES, WindowKernel

DATA_OFFSET = 16


class Scaling(Enum):
    """How a sum becomes float: by one factor that the quantisation has computed, or by the input's scale (in scratch)
    and a channel's; the product of the two scales first, or the channel's and then the input's."""

    UNIFORM = "u"
    PRODUCT = "p"
    CHANNEL_FIRST = "c"


@dataclass(frozen=True)
class HybridWindow(WindowKernel):
    """int8 or int16 input, int8 weights, float output; a record is the block's biases, and their scales unless the
    scaling is uniform."""

    asymmetric: bool
    scaling: Scaling

    parameters: ClassVar[tuple[str, ...]] = (*WindowKernel.parameters, "input_scale")

    @property
    def name(self) -> str:
        bounds = "_".join(f"{float_bits(v):x}" for v in (self.minimum, self.maximum))
        kind = f"{'lanes' if self.lanes else 'window'}_{'a' if self.asymmetric else 's'}{self.scaling.value}"
        return f"hybrid_{kind}_{self.channels}x{self.pixels}x{self.unroll}_{bounds}"

    @property
    def input_bytes(self) -> int:
        return 2 if self.asymmetric else 1

    @property
    def weight_bytes(self) -> int:
        return 1

    @property
    def record_bytes(self) -> int:
        return FLOAT_BYTES * self.channels * (1 if self.scaling is Scaling.UNIFORM else 2)

    def zero(self, f: KernelFunction) -> Value:
        return f.const(0)

    def load_input(self, f: KernelFunction, pointer: Value, offset: int) -> Value:
        return f.load_s16(pointer, offset) if self.asymmetric else f.load_s8(pointer, offset)

    def load_weight(self, f: KernelFunction, pointer: Value, offset: int) -> Value:
        return f.load_s8(pointer, offset)

    def multiply_add(self, f: KernelFunction, total: Value, x: Value, weight: Value) -> Value:
        return f.add(total, f.mul(x, weight))

    def finish(self, f: KernelFunction, sums: list[Value], record: Value) -> list[Value]:
        input_scale = f.load_f32(f.pointer("input_scale"))
        biases = [f.load_f32(record, FLOAT_BYTES * c) for c in range(self.channels)]
        factors = [[input_scale]] * self.channels
        if self.scaling is not Scaling.UNIFORM:
            scales = [f.load_f32(record, FLOAT_BYTES * (self.channels + c)) for c in range(self.channels)]
            if self.scaling is Scaling.PRODUCT:
                factors = [[f.fmul(scale, input_scale)] for scale in scales]
            else:
                factors = [[scale, input_scale] for scale in scales]
        results = []
        for number, total in enumerate(sums):
            value = f.to_float(total)
            for factor in factors[number % self.channels]:
                value = f.fmul(value, factor)
            value = f.fadd(value, biases[number % self.channels])
            results.append(clamp(f, value, self.minimum, self.maximum))
        return results


@dataclass(frozen=True)
class SymmetricInput(PortableKernel):
    """Floats to int8 without a zero point, by 127 / the greatest magnitude. Stores scale * `weight_scale`."""

    parameters: ClassVar[tuple[str, ...]] = ("input", "output", "count", "weight_scale")

    @property
    def name(self) -> str:
        return "hybrid_symmetric_input"

    def build(self, f: KernelFunction) -> None:
        source, output = f.pointer("input"), f.pointer("output")
        end = f.offset(source, f.mul(f.integer("count"), FLOAT_BYTES))

        def larger(pointer: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            magnitude = f.and_(f.load_i32(pointer), SIGN - 1)
            return f.offset(pointer, FLOAT_BYTES), [f.maximum(carried[0], magnitude)]

        _, (bits,) = f.loop_until(end, source, larger, [f.const(0)])
        nothing = f.compare("==", bits, 0)
        limit = f.from_bits(bits)
        scale = f.builder.select(nothing, f.float(1.0), f.fdiv(limit, f.float(127.0)))
        inverse = f.builder.select(nothing, f.float(0.0), f.fdiv(f.float(127.0), limit))
        f.store(f.fmul(scale, f.from_bits(f.integer("weight_scale"))), output)

        def quantize(pointer: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            # No value exceeds the limit, so the reference's clamp to -127..127 never acts.
            value = round_half_away(f, f.fmul(f.load_f32(pointer), inverse))
            f.store(f.trunc(value, I8), carried[0])
            return f.offset(pointer, FLOAT_BYTES), [f.offset(carried[0], 1)]

        f.loop_until(end, source, quantize, [f.offset(output, DATA_OFFSET)])


@dataclass(frozen=True)
class AsymmetricInput(PortableKernel):
    """Floats to q - zero point (int16) for q in -128..127 over the range of the values and 0. Stores the scale.

    The range is divided in double precision, as in the reference.
    """

    parameters: ClassVar[tuple[str, ...]] = ("input", "output", "count")

    @property
    def name(self) -> str:
        return "hybrid_asymmetric_input"

    def build(self, f: KernelFunction) -> None:
        source, output = f.pointer("input"), f.pointer("output")
        end = f.offset(source, f.mul(f.integer("count"), FLOAT_BYTES))

        def extend(pointer: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            bits = f.load_i32(pointer)
            key = f.xor(bits, f.lshr(f.ashr(bits, 31), 1))
            return f.offset(pointer, FLOAT_BYTES), [f.minimum(carried[0], key), f.maximum(carried[1], key)]

        _, (low, high) = f.loop_until(end, source, extend, [f.const(0), f.const(0)])
        limits = [f.from_bits(f.xor(key, f.lshr(f.ashr(key, 31), 1))) for key in (low, high)]
        minimum, maximum = (f.builder.fpext(limit, F64) for limit in limits)
        nothing = f.compare("==", f.or_(low, high), 0)
        # The range is rounded to float32 before it is divided.
        scale = f.fdiv(f.builder.fpext(f.fsub(limits[1], limits[0]), F64), _double(255.0))
        scale = f.builder.select(nothing, _double(1.0), scale)
        below, above = f.fdiv(minimum, scale), f.fdiv(maximum, scale)
        # Of -128 - below and 127 - above the reference takes the one with the smaller terms.
        from_minimum = f.fcompare("<", f.fsub(_double(128.0), below), f.fadd(_double(127.0), above))
        zero_point = _rounded(
            f,
            f.builder.select(from_minimum, f.fsub(_double(-128.0), below), f.fsub(_double(127.0), above)),
        )
        zero_point = f.minimum(f.maximum(zero_point, -128), 127)
        zero_point = f.select(nothing, 0, zero_point)
        single = f.builder.fptrunc(scale, F32)
        f.store(single, output)
        inverse, offset = f.fdiv(f.float(1.0), single), f.to_float(zero_point)

        def quantize(pointer: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            value = round_half_away(f, f.fadd(offset, f.fmul(f.load_f32(pointer), inverse)))
            value = f.minimum(f.maximum(value, -128), 127)
            f.store_i16(f.sub(value, zero_point), carried[0])
            return f.offset(pointer, FLOAT_BYTES), [f.offset(carried[0], 2)]

        f.loop_until(end, source, quantize, [f.offset(output, DATA_OFFSET)])


def _double(value: float) -> Value:
    return ir.Constant(F64, value)


def _rounded(f: KernelFunction, x: Value) -> Value:
    """A small double rounded to i32, ties away from zero."""
    whole = f.builder.fptosi(x, I32)
    rest = f.fsub(x, f.builder.sitofp(whole, F64))
    up = f.zext(f.fcompare(">=", rest, _double(0.5)))
    down = f.zext(f.fcompare("<=", rest, _double(-0.5)))
    return f.sub(f.add(whole, up), down)
