# SPDX-License-Identifier: Apache-2.0
"""The float window kernel: convolution, depthwise convolution and fully connected layers.

The sums run in the order of the reference (rows, columns, channels of the window; then the bias; then the clamp) with
separate multiplications and additions, so every core gives the reference's bits, with or without a float unit.

Source: TensorFlow Lite, kernels/internal/reference/{conv,depthwiseconv_float,fully_connected}.h.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.codegen.builder import Function, Value
from compiler.kernels.float_functions import INFINITY_BITS, float_bits
from compiler.kernels.kernel import KernelFunction
from compiler.kernels.window_walk import FLOAT_BYTES, WindowKernel

LARGEST = float(np.finfo(np.float32).max)


def clamp(f: Function, value: Value, minimum: float, maximum: float) -> Value:
    """min(max(value, minimum), maximum) with the reference's NaN and signed-zero results.

    It works on the bits: floats of one sign are ordered as integers, which spares soft-float cores the comparison
    calls. Needs minimum <= 0 < maximum; infinite bounds stand for the largest finite value, as in the reference.
    """
    minimum, maximum = max(minimum, -LARGEST), min(maximum, LARGEST)
    if not minimum <= 0 < maximum:
        raise ValueError(f"a clamp to {minimum}..{maximum} does not hold zero")
    bits = f.bits(value)
    if minimum == -LARGEST and maximum == LARGEST:
        # An infinity less one unit is the largest finite value of its sign.
        infinite = f.compare("==", f.shl(bits, 1), INFINITY_BITS << 1)
        return f.from_bits(f.sub(bits, f.zext(infinite)))
    sign = 1 << 31
    for bound, infinity, result in (
        (sign | float_bits(-minimum), sign | INFINITY_BITS, float_bits(minimum + 0.0)),
        (float_bits(maximum), INFINITY_BITS, float_bits(maximum)),
    ):
        beyond = f.compare_unsigned("<", f.sub(bits, bound + 1), infinity - bound)
        bits = f.select(beyond, f.const(result), bits)
    return f.from_bits(bits)


@dataclass(frozen=True)
class FloatWindow(WindowKernel):
    """float32 input and weights; a record is the block's biases."""

    @property
    def name(self) -> str:
        bounds = "_".join(f"{float_bits(v):x}" for v in (self.minimum, self.maximum))
        return f"float_{'lanes' if self.lanes else 'window'}_{self.channels}x{self.pixels}_{bounds}"

    @property
    def input_bytes(self) -> int:
        return FLOAT_BYTES

    @property
    def weight_bytes(self) -> int:
        return FLOAT_BYTES

    @property
    def record_bytes(self) -> int:
        return FLOAT_BYTES * self.channels

    def zero(self, f: KernelFunction) -> Value:
        return f.float(0.0)

    def load_input(self, f: KernelFunction, pointer: Value, offset: int) -> Value:
        return f.load_f32(pointer, offset)

    def load_weight(self, f: KernelFunction, pointer: Value, offset: int) -> Value:
        return f.load_f32(pointer, offset)

    def multiply_add(self, f: KernelFunction, total: Value, x: Value, weight: Value) -> Value:
        return f.fadd(total, f.fmul(x, weight))

    def finish(self, f: KernelFunction, sums: list[Value], record: Value) -> list[Value]:
        biases = [f.load_f32(record, FLOAT_BYTES * c) for c in range(self.channels)] * self.pixels
        return [clamp(f, f.fadd(s, b), self.minimum, self.maximum) for s, b in zip(sums, biases, strict=True)]
