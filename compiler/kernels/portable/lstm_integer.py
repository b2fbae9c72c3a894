# SPDX-License-Identifier: Apache-2.0
"""The integer form of an LSTM: int8 or int16 inputs and hidden values, int8 weights, an int16 cell.

Source: TensorFlow Lite Micro, kernels/lstm_eval.h, lstm_eval_common.cc. Each sum of a gate is rescaled to int16 in
steps of 2**-12 by itself; both are added with saturation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from llvmlite import ir

from compiler.codegen.builder import I32, I64, Value
from compiler.codegen.requantize import (
    Multiplier,
    Multiplier64,
    multiply_by_quantized_multiplier,
    multiply_by_quantized_multiplier_64,
)
from compiler.isa import PairIsa
from compiler.kernels.kernel import KernelFunction
from compiler.kernels.portable.loops import Element
from compiler.kernels.portable.lstm import GATES, SHAPE, LstmKernel
from compiler.kernels.portable.maps import sigmoid_curve

GATE_STEP = 3
"""Gates are in steps of 2**-12; the curves' steps are a third of that."""
RESCALING_WORDS = 3
QUAD = 4
PRODUCTS = ("forget", "new", "hidden")
"""The products of a unit: forget gate and cell, input gate and cell gate, output gate and tanh of the cell."""


@dataclass(frozen=True)
class IntegerLstm(LstmKernel):
    """`rescalings` has multiplier, left and right shift of the gates' sums of the input, then of the hidden values;
    with int16 inputs, whose sums have 64 bits, the reduced multiplier, its right shift and 0. Biases are in the same
    order. With `quads` blocks of four int8 values are multiplied by pairs; they start on 4 bytes. `small` states that
    no sum reaches 2**29 and none is shifted left."""

    kind: Element
    quads: bool
    small: bool

    parameters: ClassVar[tuple[str, ...]] = (
        *SHAPE, "rescalings", "curve", "cell_multiplier", "cell_rounding", "cell_shift", "cell_minimum", "cell_maximum",
        *(f"{product}_{part}" for product in PRODUCTS for part in ("multiplier", "left", "right")), "hidden_zero",
    )  # fmt: skip

    @property
    def name(self) -> str:
        forms = f"{'_quads' if self.quads else ''}{'_small' if self.small else ''}"
        return f"lstm_{self.kind.value}_x{self.input_lanes}_x{self.hidden_lanes}{forms}"

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

    @property
    def sum_kind(self) -> ir.Type:
        return I64 if self.is_wide else I32

    def starts(self, f: KernelFunction, bias: Value, part: int) -> list[Value]:
        width = 8 if self.is_wide else 4
        return [f.load(self.sum_kind, bias, (part * GATES + gate) * width) for gate in range(GATES)]

    def next_bias(self, f: KernelFunction, bias: Value) -> Value:
        return f.offset(bias, 2 * GATES * (8 if self.is_wide else 4))

    def block(self, f: KernelFunction, totals: list[Value], x: Value, weights: Value, lanes: int) -> list[Value]:
        if self.quads and lanes == QUAD:
            return self._quad(f, totals, x, weights)
        for lane in range(lanes):
            value = self.kind.load(f, x, lane * self.kind.bytes)
            factors = [f.load_s8(weights, gate * lanes + lane) for gate in range(GATES)]
            products = [f.mul(value, w) for w in factors]
            if self.is_wide:
                products = [f.sext(product, I64) for product in products]
            totals = [f.add(total, product) for total, product in zip(totals, products, strict=True)]
        return totals

    def _quad(self, f: KernelFunction, totals: list[Value], x: Value, weights: Value) -> list[Value]:
        """Four values by pairs of int16."""
        isa = self.isa
        assert isinstance(isa, PairIsa)
        values = isa.extend_quad(f, f.load_i32(x))
        for gate in range(GATES):
            factors = isa.extend_quad(f, f.load_i32(weights, QUAD * gate))
            for a, b in zip(values, factors, strict=True):
                totals[gate] = isa.multiply_pairs(f, a, b, totals[gate])
        return totals

    def rescale(self, f: KernelFunction, sums: Value, gates: Value) -> None:
        def one(_: Value, carried: list[Value]) -> list[Value]:
            sums, gates, rescaling = carried
            value = _int16(f, self._rescaled(f, f.load(self.sum_kind, sums), rescaling))
            f.store(value, gates)
            width = 8 if self.is_wide else 4
            return [f.offset(sums, width), f.offset(gates, 4), f.offset(rescaling, 4 * RESCALING_WORDS)]

        f.loop(2 * GATES, one, [sums, gates, f.pointer("rescalings")])

    def total(self, f: KernelFunction, sums: Value, gates: Value, bias: Value) -> Value:
        return _int16(f, f.add(f.load_i32(gates), f.load_i32(gates, 4 * GATES)))

    def _rescaled(self, f: KernelFunction, total: Value, rescaling: Value) -> Value:
        words = [f.load_i32(rescaling, 4 * word) for word in range(RESCALING_WORDS)]
        if self.is_wide:
            return multiply_by_quantized_multiplier_64(f, total, Multiplier64(words[0], words[1]))
        by = Multiplier(words[0], 0 if self.small else words[1], words[2])
        return multiply_by_quantized_multiplier(f, self.isa, total, by, self.small)

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
