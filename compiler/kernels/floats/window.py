# SPDX-License-Identifier: Apache-2.0
"""The float window kernel: convolution, depthwise convolution and fully connected layers.

The sums run in the order of the reference (rows, columns, channels of the window; then the bias; then the clamp) with
separate multiplications and additions, so every core gives the reference's bits, with or without a float unit.

Source: TensorFlow Lite, kernels/internal/reference/{conv,depthwiseconv_float,fully_connected}.h.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.codegen.builder import Value
from compiler.kernels.floats.functions import clamp, float_bits
from compiler.kernels.kernel import KernelFunction
from compiler.kernels.portable.window_walk import FLOAT_BYTES, WindowKernel


@dataclass(frozen=True)
class FloatWindow(WindowKernel):
    """float32 input and weights; a record is the block's biases."""

    @property
    def name(self) -> str:
        bounds = "_".join(f"{float_bits(v):x}" for v in (self.minimum, self.maximum))
        return f"float_{'lanes' if self.lanes else 'window'}_{self.channels}x{self.pixels}x{self.unroll}_{bounds}"

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
