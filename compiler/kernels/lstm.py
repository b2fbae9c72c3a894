# SPDX-License-Identifier: Apache-2.0
"""The walk of an LSTM over batches, steps and units, and its float form.

A unit's weights lie together: for each gate a row for the input, then a row for the hidden values. Gates are in the
order input, forget, output, cell. The hidden values of a step are written to its output, where the next step reads
them, so that all units of a step see the same hidden values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from compiler.codegen.builder import F32, I32, Value
from compiler.kernels.float_functions import clamp, float_bits, logistic, tanh
from compiler.kernels.kernel import KernelFunction
from compiler.kernels.portable import Element, PortableKernel


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
    def activation(self) -> Element:
        """The type of inputs, hidden values and outputs."""
        raise NotImplementedError

    @property
    def cell(self) -> Element:
        """The type of the cell state; gates are held as its values are in registers."""
        raise NotImplementedError

    @property
    def weight_bytes(self) -> int:
        return self.activation.bytes

    def rescaling(self, f: KernelFunction) -> Value:
        """The address of the first gate's rescaling; a dummy where there is none."""
        return f.pointer("bias")

    def sum(self, f: KernelFunction, row: Row, rescaling: Value) -> tuple[Value, Row, Value]:
        """A gate before its activation, the row behind it, and the next gate's rescaling."""
        raise NotImplementedError

    def logistic(self, f: KernelFunction, value: Value) -> Value:
        raise NotImplementedError

    def cell_gate(self, f: KernelFunction, value: Value) -> Value:
        """tanh of the cell gate's sum."""
        raise NotImplementedError

    def update(self, f: KernelFunction, gates: Sequence[Value], cell: Value) -> tuple[Value, Value]:
        """The new cell value and the new hidden value, of the activated gates in their order."""
        raise NotImplementedError

    def build(self, f: KernelFunction) -> None:
        sums = f.alloca(F32 if self.cell is Element.FLOAT32 else I32, GATES)

        def batch(_: Value, carried: list[Value]) -> list[Value]:
            source, output, hidden, cell = carried
            last = self._steps(f, sums, source, output, hidden, cell)
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

    def _steps(self, f: KernelFunction, sums: Value, source: Value, output: Value, hidden: Value, cell: Value) -> Value:
        """All steps of a batch; returns the address of the last hidden values."""

        def step(_: Value, carried: list[Value]) -> list[Value]:
            source, output, hidden = carried

            def unit(_: Value, carried: list[Value]) -> list[Value]:
                weights, bias, cell, target = carried
                gates, weights, bias = self._gates(f, sums, Row(source, hidden, weights, bias))
                new_cell, new_hidden = self.update(f, gates, self.cell.load(f, cell))
                self.cell.store(f, new_cell, cell)
                self.activation.store(f, new_hidden, target)
                return [weights, bias, f.offset(cell, self.cell.bytes), f.offset(target, self.activation.bytes)]

            f.loop(f.integer("units"), unit, [f.pointer("weights"), f.pointer("bias"), cell, output])
            return [f.offset(source, f.integer("input_step")), f.offset(output, f.integer("output_step")), output]

        return f.loop(f.integer("steps"), step, [source, output, hidden])[2]

    def _gates(self, f: KernelFunction, sums: Value, row: Row) -> tuple[list[Value], Value, Value]:
        """The activated gates of a unit, and the addresses of the next unit's weights and biases."""
        kind = F32 if self.cell is Element.FLOAT32 else I32

        def one(_: Value, carried: list[Value]) -> list[Value]:
            target, weights, bias, rescaling = carried
            total, after, rescaling = self.sum(f, Row(row.source, row.hidden, weights, bias), rescaling)
            f.store(total, target)
            return [f.offset(target, 4), after.weights, after.bias, rescaling]

        def activated(_: Value, carried: list[Value]) -> list[Value]:
            f.store(self.logistic(f, f.load(kind, carried[0])), carried[0])
            return [f.offset(carried[0], 4)]

        after = f.loop(GATES, one, [sums, row.weights, row.bias, self.rescaling(f)])
        f.loop(GATES - 1, activated, [sums])
        gates = [f.load(kind, sums, 4 * gate) for gate in range(GATES - 1)]
        gates.append(self.cell_gate(f, f.load(kind, sums, 4 * (GATES - 1))))
        return gates, after[1], after[2]

    def products(
        self, f: KernelFunction, start: Value, vector: Value, weights: Value, size: Value, lanes: int
    ) -> tuple[Value, Value]:
        """`start` plus a row of weights times a vector of `size` bytes; the address behind the row."""

        def product(x: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            weights, total = carried
            for lane in range(lanes):
                a = self.activation.load(f, x, lane * self.activation.bytes)
                total = self.multiply_add(f, total, a, self.load_weight(f, weights, lane))
            return f.offset(x, lanes * self.activation.bytes), [f.offset(weights, lanes * self.weight_bytes), total]

        _, (weights, total) = f.loop_until(f.offset(vector, size), vector, product, [weights, start])
        return total, weights

    def multiply_add(self, f: KernelFunction, total: Value, a: Value, b: Value) -> Value:
        raise NotImplementedError

    def load_weight(self, f: KernelFunction, weights: Value, lane: int) -> Value:
        raise NotImplementedError


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

    def multiply_add(self, f: KernelFunction, total: Value, a: Value, b: Value) -> Value:
        return f.fadd(total, f.fmul(a, b))

    def load_weight(self, f: KernelFunction, weights: Value, lane: int) -> Value:
        return f.load_f32(weights, 4 * lane)

    def sum(self, f: KernelFunction, row: Row, rescaling: Value) -> tuple[Value, Row, Value]:
        total, weights = f.load_f32(row.bias), row.weights
        for vector, size, lanes in (
            (row.source, "input_bytes", self.input_lanes),
            (row.hidden, "hidden_bytes", self.hidden_lanes),
        ):
            part, weights = self.products(f, f.float(0.0), vector, weights, f.integer(size), lanes)
            total = f.fadd(total, part)
        return total, Row(row.source, row.hidden, weights, f.offset(row.bias, 4)), rescaling

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
