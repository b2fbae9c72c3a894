# SPDX-License-Identifier: Apache-2.0
"""The integer form of an LSTM: int8 or int16 inputs and hidden values, int8 weights, an int16 cell.

Source: TensorFlow Lite Micro, kernels/lstm_eval.h, lstm_eval_common.cc. Each sum of a gate is rescaled to int16 in
steps of 2**-12 by itself; both are added with saturation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from compiler.codegen.builder import I64, Value
from compiler.codegen.requantize import (
    Multiplier,
    Multiplier64,
    multiply_by_quantized_multiplier,
    multiply_by_quantized_multiplier_64,
)
from compiler.kernels.kernel import KernelFunction
from compiler.kernels.lstm import SHAPE, LstmKernel, Row
from compiler.kernels.maps import sigmoid_curve
from compiler.kernels.portable import Element

GATE_STEP = 3
"""Gates are in steps of 2**-12; the curves' steps are a third of that."""
RESCALING_WORDS = 3
PRODUCTS = ("forget", "new", "hidden")
"""The products of a unit: forget gate and cell, input gate and cell gate, output gate and tanh of the cell."""


@dataclass(frozen=True)
class IntegerLstm(LstmKernel):
    """`rescalings` has for each gate multiplier, left and right shift of the input's sum, then of the hidden sum; with
    int16 inputs, whose sums have 64 bits, the reduced multiplier, its right shift and 0. A bias has two entries."""

    kind: Element

    parameters: ClassVar[tuple[str, ...]] = (
        *SHAPE, "rescalings", "curve", "cell_multiplier", "cell_rounding", "cell_shift", "cell_minimum", "cell_maximum",
        *(f"{product}_{part}" for product in PRODUCTS for part in ("multiplier", "left", "right")), "hidden_zero",
    )  # fmt: skip

    @property
    def name(self) -> str:
        return f"lstm_{self.kind.value}_x{self.input_lanes}_x{self.hidden_lanes}"

    @property
    def activation(self) -> Element:
        return self.kind

    @property
    def cell(self) -> Element:
        return Element.INT16

    @property
    def weight_bytes(self) -> int:
        return 1

    @property
    def is_wide(self) -> bool:
        return self.kind is Element.INT16

    def rescaling(self, f: KernelFunction) -> Value:
        return f.pointer("rescalings")

    def multiply_add(self, f: KernelFunction, total: Value, a: Value, b: Value) -> Value:
        product = f.mul(a, b)
        return f.add(total, f.sext(product, I64) if self.is_wide else product)

    def load_weight(self, f: KernelFunction, weights: Value, lane: int) -> Value:
        return f.load_s8(weights, lane)

    def sum(self, f: KernelFunction, row: Row, rescaling: Value) -> tuple[Value, Row, Value]:
        weights, bias, parts = row.weights, row.bias, []
        for vector, size, lanes in (
            (row.source, "input_bytes", self.input_lanes),
            (row.hidden, "hidden_bytes", self.hidden_lanes),
        ):
            start = f.load(I64, bias) if self.is_wide else f.load_i32(bias)
            total, weights = self.products(f, start, vector, weights, f.integer(size), lanes)
            parts.append(_int16(f, self._rescaled(f, total, rescaling)))
            bias = f.offset(bias, 8 if self.is_wide else 4)
            rescaling = f.offset(rescaling, 4 * RESCALING_WORDS)
        return _int16(f, f.add(*parts)), Row(row.source, row.hidden, weights, bias), rescaling

    def _rescaled(self, f: KernelFunction, total: Value, rescaling: Value) -> Value:
        words = [f.load_i32(rescaling, 4 * word) for word in range(RESCALING_WORDS)]
        if self.is_wide:
            return multiply_by_quantized_multiplier_64(f, total, Multiplier64(words[0], words[1]))
        return multiply_by_quantized_multiplier(f, self.isa, total, Multiplier(*words))

    def logistic(self, f: KernelFunction, value: Value) -> Value:
        return sigmoid_curve(f, f.mul(value, GATE_STEP), f.pointer("curve"), False)

    def cell_gate(self, f: KernelFunction, value: Value) -> Value:
        return sigmoid_curve(f, f.mul(value, GATE_STEP), f.pointer("curve"), True)

    def update(self, f: KernelFunction, gates: Sequence[Value], cell: Value) -> tuple[Value, Value]:
        input_gate, forget, output, new = gates
        kept = _int16(f, self._product(f, "forget", forget, cell))
        added = _int16(f, self._product(f, "new", input_gate, new))
        cell = f.minimum(f.maximum(f.add(kept, added), f.integer("cell_minimum")), f.integer("cell_maximum"))
        scaled = f.add(f.mul(cell, f.integer("cell_multiplier")), f.integer("cell_rounding"))
        curve = sigmoid_curve(f, f.ashr(scaled, f.integer("cell_shift")), f.pointer("curve"), True)
        hidden = f.add(self._product(f, "hidden", curve, output), f.integer("hidden_zero"))
        limit = (1 << (8 * self.kind.bytes - 1)) - 1
        return cell, f.minimum(f.maximum(hidden, -limit - 1), limit)

    def _product(self, f: KernelFunction, name: str, a: Value, b: Value) -> Value:
        by = Multiplier(*(f.integer(f"{name}_{part}") for part in ("multiplier", "left", "right")))
        return multiply_by_quantized_multiplier(f, self.isa, f.mul(a, b), by)


def _int16(f: KernelFunction, value: Value) -> Value:
    return f.minimum(f.maximum(value, -32768), 32767)
