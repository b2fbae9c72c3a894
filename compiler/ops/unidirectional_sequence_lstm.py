# SPDX-License-Identifier: Apache-2.0
"""UNIDIRECTIONAL_SEQUENCE_LSTM: int8, int16x8 and float32, without peepholes, projection and layer normalisation.

Source: integer: TensorFlow Lite Micro, kernels/lstm_eval.h and lstm_eval_common.cc; float: TensorFlow Lite,
kernels/lstm_eval.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.ops import layers, lstm_float, lstm_integer
from compiler.ops.activation import Activation
from compiler.ops.constraints import FLOAT, Q8, Q16, input_is_computed, int16_zero_points_are_zero
from compiler.ops.definition import Array, Constraint, OperatorDefinition, OperatorView
from compiler.ops.lstm import BIASES, CELL, HIDDEN, INPUT_WEIGHTS, RECURRENT_WEIGHTS, LstmAttributes, sizes

UNUSED = {
    **dict.fromkeys((9, 10, 11), "peephole weights"),
    **dict.fromkeys((16, 17), "a projection"),
    **dict.fromkeys((20, 21, 22, 23), "layer normalisation"),
}
NEEDED = (0, *INPUT_WEIGHTS, *RECURRENT_WEIGHTS, *BIASES, HIDDEN, CELL)
FORMS = {
    Q8: (Q8, Q8, DType.INT32, Q8, Q16),
    Q16: (Q16, Q8, DType.INT64, Q16, Q16),
    FLOAT: (FLOAT, FLOAT, FLOAT, FLOAT, FLOAT),
}
"""Types of the input, the weights, the biases, the hidden state and the cell state, by the input's; the output has the
hidden state's."""


def parse(options: Any) -> LstmAttributes:
    if options is None:
        return LstmAttributes()
    return LstmAttributes(
        Activation(options.FusedActivationFunction()),
        float(options.CellClip()),
        bool(options.TimeMajor()),
        bool(options.DiagonalRecurrentTensors()),
    )


def no_extra_inputs(view: OperatorView) -> str | None:
    """Peephole weights (inputs 9 to 11), a projection (16, 17) and layer normalisation (20 to 23) are absent."""
    found = {what for position, what in UNUSED.items() if view.optional(position) is not None}
    return " and ".join(sorted(found)) or None


def needed_inputs(view: OperatorView) -> str | None:
    """There are 20 or 24 inputs and one output; the input, the weights and biases of all four gates (an LSTM with
    coupled input and forget gates lacks some) and both states are present."""
    if len(view.inputs) not in (20, 24) or len(view.operator.outputs) != 1:
        return f"{len(view.inputs)} inputs, {len(view.operator.outputs)} outputs"
    absent = [position for position in NEEDED if view.optional(position) is None]
    return f"input {absent[0]} is absent" if absent else None


def types(view: OperatorView) -> str | None:
    """All is FLOAT32; or input, weights, hidden state and output are INT8 with INT32 biases and an INT16 cell state; or
    input, states and output are INT16 with INT8 weights and INT64 biases."""
    form = FORMS.get(view.input().dtype)
    if form is None:
        return f"the input is {view.input().dtype.name}"
    wanted = [form[0]]
    wanted += [form[1]] * 8 + [form[2]] * 4 + [form[3], form[4]]
    for position, kind in zip(NEEDED, wanted, strict=True):
        if view.input(position).dtype is not kind:
            return f"input {position} is {view.input(position).dtype.name}"
    return None if view.output().dtype is form[3] else f"the output is {view.output().dtype.name}"


def constants(view: OperatorView) -> str | None:
    """Weights and biases are constant, and both states are variables."""
    for position in NEEDED[1:]:
        tensor = view.input(position)
        if position in (HIDDEN, CELL) and not tensor.is_variable:
            return f"'{tensor.name}' is no variable"
        if position not in (HIDDEN, CELL) and not tensor.is_constant:
            return f"'{tensor.name}' is computed at run time"
    return None


def consistent_shapes(view: OperatorView) -> str | None:
    """Input [batches, steps, inputs], or [steps, batches, inputs] where time is major; output likewise with [units];
    weights [units, inputs] and [units, units], biases [units], states of batches * units elements."""
    shapes = [view.input(p).shape for p in NEEDED]
    if len(shapes[0]) != 3 or len(shapes[1]) != 2 or view.attributes.diagonal:
        return f"input {list(shapes[0])}, weights {list(shapes[1])}"
    s = sizes(view)
    wanted = [(s.units, s.inputs)] * 4 + [(s.units, s.units)] * 4 + [(s.units,)] * 4
    found = f"input {list(shapes[0])}, {s.units} units, output {list(view.output().shape)}"
    states = all(view.input(p).elements == s.batches * s.units for p in (HIDDEN, CELL))
    good = shapes[1:-2] == wanted and states and view.output().shape == (*shapes[0][:2], s.units)
    return None if good and min(s.batches, s.steps, s.units, s.inputs) > 0 else found


def moderate_biases(view: OperatorView) -> str | None:
    """INT64 biases are below 2**46: the reference rescales sums of 48 bits."""
    return next((got for p in BIASES if (got := layers.oversized(view.input(p)))), None)


def tanh_cell(view: OperatorView) -> str | None:
    """The activation of the cell gate is TANH."""
    return None if view.attributes.activation is Activation.TANH else str(view.attributes.activation.name)


def quantization(view: OperatorView) -> str | None:
    """Quantised tensors have one scale above zero; weights have zero point 0; the output has the hidden state's scale
    and zero point; the cell state's scale is a power of two from 2^-15 to 2^-3."""
    return None if view.input().dtype is FLOAT else lstm_integer.quantization_fault(view, NEEDED)


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    x, hidden, cell = inputs[0], inputs[HIDDEN], inputs[CELL]
    assert x is not None and hidden is not None and cell is not None
    evaluate = lstm_float.evaluate if view.input().dtype is FLOAT else lstm_integer.evaluate
    return [evaluate(view, x, hidden, cell)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    return lstm_float.lower(view, isa) if view.input().dtype is FLOAT else lstm_integer.lower(view, isa)


CONSTRAINTS: tuple[Constraint, ...] = (
    no_extra_inputs,
    needed_inputs,
    types,
    input_is_computed,
    constants,
    consistent_shapes,
    moderate_biases,
    tanh_cell,
    quantization,
    int16_zero_points_are_zero,
)
DEFINITIONS = (
    OperatorDefinition("UNIDIRECTIONAL_SEQUENCE_LSTM", parse, CONSTRAINTS, reference, lower, updates=(HIDDEN, CELL)),
)
