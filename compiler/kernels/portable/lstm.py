# SPDX-License-Identifier: Apache-2.0
"""The walk of an LSTM over batches, steps and units, and its float form.

A unit's weights lie together, those of the input before those of the hidden values: for each block of values a block
for each gate, so that a value is read once for all gates. Gates are in the order input, forget, output, cell. The
hidden values of a step are written to its output, where the next step reads them, so that all units of a step see the
same hidden values.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from llvmlite import ir

from compiler.codegen.builder import F32, I32, I64, Value
from compiler.kernels.floats.functions import clamp, float_bits, logistic, tanh
from compiler.kernels.kernel import KernelFunction
from compiler.kernels.portable.loops import Element, PortableKernel


@dataclass(frozen=True)
class Row:
    """What a gate's sum is made of: the addresses of the input, the hidden values, the weights and the biases."""

    source: Value
    hidden: Value
    weights: Value
    bias: Value


GATES = 4
SHAPE = (
    "input", "output", "hidden", "cell", "weights", "bias", "batches", "steps", "units", "input_bytes", "hidden_bytes",
    "input_step", "input_batch", "output_step", "output_batch",
)  # fmt: skip
"""`input_bytes` and `hidden_bytes` are those of a row; steps and batches are bytes from one row to the next."""


@dataclass(frozen=True)
class LstmKernel(PortableKernel):
    """The walk: `input_lanes` and `hidden_lanes` products a step."""

    input_lanes: int
    hidden_lanes: int

    @property
    @abstractmethod
    def activation(self) -> Element:
        """The type of inputs, hidden values and outputs."""

    @property
    @abstractmethod
    def cell(self) -> Element:
        """The type of the cell state; gates are held as its values are in registers."""

    @property
    @abstractmethod
    def sum_kind(self) -> ir.Type:
        """The type of sums of products."""

    @property
    def weight_bytes(self) -> int:
        return self.activation.bytes

    @abstractmethod
    def starts(self, f: KernelFunction, bias: Value, part: int) -> list[Value]:
        """What the gates' sums of the input (part 0) and of the hidden values (part 1) begin with."""

    @abstractmethod
    def next_bias(self, f: KernelFunction, bias: Value) -> Value:
        """The biases of the next unit."""

    @abstractmethod
    def block(self, f: KernelFunction, totals: list[Value], x: Value, weights: Value, lanes: int) -> list[Value]:
        """The gates' sums plus the products of `lanes` values."""

    def rescale(self, f: KernelFunction, sums: Value, gates: Value) -> None:
        """Makes of the eight sums what `total` adds up."""

    @abstractmethod
    def total(self, f: KernelFunction, sums: Value, gates: Value, bias: Value) -> Value:
        """A gate before its activation; the addresses are those of the gate's entries."""

    @abstractmethod
    def logistic(self, f: KernelFunction, value: Value) -> Value: ...

    @abstractmethod
    def cell_gate(self, f: KernelFunction, value: Value) -> Value:
        """tanh of the cell gate's sum."""

    @abstractmethod
    def update(self, f: KernelFunction, gates: Sequence[Value], cell: Value) -> tuple[Value, Value]:
        """The new cell value and the new hidden value, of the activated gates in their order."""

    def build(self, f: KernelFunction) -> None:
        frame = f.alloca(self.sum_kind, 2 * GATES), f.alloca(self.gate_kind, 2 * GATES)

        def batch(_: Value, carried: list[Value]) -> list[Value]:
            source, output, hidden, cell = carried
            last = self._steps(f, frame, source, output, hidden, cell)
            unit = self.activation

            def keep(target: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
                unit.store(f, unit.load(f, carried[0]), target)
                return f.offset(target, unit.bytes), [f.offset(carried[0], unit.bytes)]

            hidden, _copied = f.loop_until(f.offset(hidden, f.integer("hidden_bytes")), hidden, keep, [last])
            return [
                f.offset(source, f.integer("input_batch")),
                f.offset(output, f.integer("output_batch")),
                hidden,
                f.offset(cell, f.mul(f.integer("units"), self.cell.bytes)),
            ]

        f.loop(f.integer("batches"), batch, [f.pointer(name) for name in ("input", "output", "hidden", "cell")])

    def _steps(
        self, f: KernelFunction, frame: tuple[Value, Value], source: Value, output: Value, hidden: Value, cell: Value
    ) -> Value:
        """All steps of a batch; returns the address of the last hidden values."""

        def step(_: Value, carried: list[Value]) -> list[Value]:
            source, output, hidden = carried

            def unit(_: Value, carried: list[Value]) -> list[Value]:
                weights, bias, cell, target = carried
                gates, weights, bias = self._gates(f, *frame, Row(source, hidden, weights, bias))
                new_cell, new_hidden = self.update(f, gates, self.cell.load(f, cell))
                self.cell.store(f, new_cell, cell)
                self.activation.store(f, new_hidden, target)
                return [weights, bias, f.offset(cell, self.cell.bytes), f.offset(target, self.activation.bytes)]

            f.loop(f.integer("units"), unit, [f.pointer("weights"), f.pointer("bias"), cell, output])
            return [f.offset(source, f.integer("input_step")), f.offset(output, f.integer("output_step")), output]

        return f.loop(f.integer("steps"), step, [source, output, hidden])[2]

    @property
    def gate_kind(self) -> ir.Type:
        return F32 if self.cell is Element.FLOAT32 else I32

    def _gates(self, f: KernelFunction, sums: Value, gates: Value, row: Row) -> tuple[list[Value], Value, Value]:
        """The activated gates of a unit, and the addresses of the next unit's weights and biases."""
        weights = row.weights
        for part, (vector, size, lanes) in enumerate(
            ((row.source, "input_bytes", self.input_lanes), (row.hidden, "hidden_bytes", self.hidden_lanes))
        ):
            totals = self.starts(f, row.bias, part)
            totals, weights = self._products(f, totals, vector, weights, f.integer(size), lanes)
            width = 8 if self.sum_kind == I64 else 4
            for gate, total in enumerate(totals):
                f.store(total, sums, (part * GATES + gate) * width)
        self.rescale(f, sums, gates)

        def activated(_: Value, carried: list[Value]) -> list[Value]:
            sums, gates, bias = carried
            f.store(self.logistic(f, self.total(f, sums, gates, bias)), gates)
            return [f.offset(address, 4) for address in carried]

        addresses = f.loop(GATES - 1, activated, [sums, gates, row.bias])
        made = [f.load(self.gate_kind, gates, 4 * gate) for gate in range(GATES - 1)]
        made.append(self.cell_gate(f, self.total(f, *addresses)))
        return made, weights, self.next_bias(f, row.bias)

    def _products(
        self, f: KernelFunction, totals: list[Value], vector: Value, weights: Value, size: Value, lanes: int
    ) -> tuple[list[Value], Value]:
        """The gates' sums over a vector of `size` bytes; the address behind their weights."""

        def block(x: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            weights, *totals = carried
            totals = self.block(f, totals, x, weights, lanes)
            return f.offset(x, lanes * self.activation.bytes), [
                f.offset(weights, GATES * lanes * self.weight_bytes),
                *totals,
            ]

        _, (weights, *totals) = f.loop_until(f.offset(vector, size), vector, block, [weights, *totals])
        return totals, weights


@dataclass(frozen=True)
class FloatLstm(LstmKernel):
    """All float32. `clip` bounds the cell values where it is above zero.

    Source: TensorFlow Lite, kernels/lstm_eval.cc: a gate is bias + (input sum) + (hidden sum), each sum by itself.
    """

    clip: float

    parameters: ClassVar[tuple[str, ...]] = SHAPE

    @property
    def name(self) -> str:
        clip = f"_clip{float_bits(self.clip):x}" if self.clip > 0 else ""
        return f"lstm_f32_x{self.input_lanes}_x{self.hidden_lanes}{clip}"

    @property
    def activation(self) -> Element:
        return Element.FLOAT32

    @property
    def cell(self) -> Element:
        return Element.FLOAT32

    @property
    def sum_kind(self) -> ir.Type:
        return F32

    def starts(self, f: KernelFunction, bias: Value, part: int) -> list[Value]:
        return [f.float(0.0)] * GATES

    def next_bias(self, f: KernelFunction, bias: Value) -> Value:
        return f.offset(bias, 4 * GATES)

    def block(self, f: KernelFunction, totals: list[Value], x: Value, weights: Value, lanes: int) -> list[Value]:
        for lane in range(lanes):
            value = f.load_f32(x, 4 * lane)
            factors = [f.load_f32(weights, 4 * (gate * lanes + lane)) for gate in range(GATES)]
            totals = [f.fadd(total, f.fmul(value, w)) for total, w in zip(totals, factors, strict=True)]
        return totals

    def total(self, f: KernelFunction, sums: Value, gates: Value, bias: Value) -> Value:
        return f.fadd(f.fadd(f.load_f32(bias), f.load_f32(sums)), f.load_f32(sums, 4 * GATES))

    def logistic(self, f: KernelFunction, value: Value) -> Value:
        return logistic(f, self.isa, value)

    def cell_gate(self, f: KernelFunction, value: Value) -> Value:
        return tanh(f, self.isa, value)

    def update(self, f: KernelFunction, gates: Sequence[Value], cell: Value) -> tuple[Value, Value]:
        input_gate, forget, output, new = gates
        cell = f.fadd(f.fmul(forget, cell), f.fmul(new, input_gate))
        if self.clip > 0:
            cell = clamp(f, cell, -self.clip, self.clip)
        return cell, f.fmul(output, tanh(f, self.isa, cell))
