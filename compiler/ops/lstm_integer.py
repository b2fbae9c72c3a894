# SPDX-License-Identifier: Apache-2.0
"""The integer forms of the sequence LSTM: reference and lowering.

Source: TensorFlow Lite Micro, kernels/lstm_eval.h (CalculateLstmGate, UpdateLstmCell, UpdateLstmHidden, Sigmoid, Tanh)
and lstm_eval_common.cc (CreateGateParams, CreateInterGateMulParams, CreateLstmCellStateInfo).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from compiler.codegen.requantize import reduce_multiplier, split_shift
from compiler.graph import DType
from compiler.isa import Isa, PairIsa
from compiler.kernels.kernel import Constant, KernelCall, Lowered
from compiler.kernels.portable.loops import ELEMENTS
from compiler.kernels.portable.lstm_integer import GATE_STEP, QUAD, RESCALING_WORDS, IntegerLstm
from compiler.kernels.portable.maps import sigmoid_table
from compiler.numerics import (
    multiply_by_quantized_multiplier,
    multiply_by_quantized_multiplier_int64,
    quantize_multiplier,
)
from compiler.ops.definition import Array, OperatorView
from compiler.ops.lstm import (
    BIASES,
    CELL,
    HIDDEN,
    INPUT_WEIGHTS,
    KERNEL_ORDER,
    RECURRENT_WEIGHTS,
    gate,
    lanes,
    macs,
    shape_arguments,
    sizes,
    steps_first,
)
from compiler.ops.sigmoids import int16_values

GATE_SCALE, CURVE_SCALE = 2.0**-12, 2.0**-15
Scaling = tuple[int, int]


def quantization_fault(view: OperatorView, positions: Sequence[int]) -> str | None:
    """What breaks the rule of `quantization` in the operator's module."""
    for position in positions:
        tensor = view.input(position)
        if position in BIASES:
            continue
        quantization = tensor.quantization
        if quantization is None or len(quantization.scales) != 1 or not 0 < quantization.scale < math.inf:
            return f"input {position} '{tensor.name}' has not one scale above zero"
        if position in (*INPUT_WEIGHTS, *RECURRENT_WEIGHTS) and tensor.zero_point:
            return f"input {position} '{tensor.name}' has zero point {tensor.zero_point}"
    if view.output().quantization != view.input(HIDDEN).quantization:
        return "the output and the hidden state are quantised differently"
    power = math.log2(view.input(CELL).scale)
    good = abs(power - round(power)) < 1e-3 and -15 <= round(power) <= -3
    return None if good else f"the cell state has scale {view.input(CELL).scale:g}"


def gate_scalings(view: OperatorView, number: int) -> tuple[Scaling, Scaling]:
    """(multiplier, shift) of a gate's input sum and hidden sum; the product of two scales is rounded to float32."""

    def scaling(source: int, weights: int) -> Scaling:
        product = np.float32(view.input(source).scale) * np.float32(view.input(weights).scale)
        return quantize_multiplier(float(product) / GATE_SCALE)

    return scaling(0, INPUT_WEIGHTS[number]), scaling(HIDDEN, RECURRENT_WEIGHTS[number])


def product_scalings(view: OperatorView) -> tuple[Scaling, Scaling, Scaling]:
    """(multiplier, shift) of forget gate * cell, input gate * cell gate, and tanh of the cell * output gate."""
    cell, hidden = view.input(CELL).scale, view.input(HIDDEN).scale
    reals = (CURVE_SCALE * cell / cell, CURVE_SCALE * CURVE_SCALE / cell, CURVE_SCALE * CURVE_SCALE / hidden)
    forget, new, out = (quantize_multiplier(real) for real in reals)
    return forget, new, out


def cell_scaling(view: OperatorView) -> Scaling:
    """(multiplier, right shift) of the cell to the curve's steps."""
    left = 12 + round(math.log2(view.input(CELL).scale))
    return (GATE_STEP << left, 0) if left >= 0 else (GATE_STEP, -left)


def cell_limits(view: OperatorView) -> tuple[int, int]:
    """The bounds of the cell state; the reference truncates clip / scale."""
    if view.attributes.cell_clip <= 0:
        return -32768, 32767
    clip = int(min(view.attributes.cell_clip / view.input(CELL).scale, 32767.0))
    return -clip, clip


def evaluate(view: OperatorView, x: Array, hidden: Array, cell: Array) -> Array:
    """The output; changes the states in place."""
    s, wide = sizes(view), view.input().dtype is DType.INT16
    h, c = hidden.reshape(s.batches, s.units), cell.reshape(s.batches, s.units)
    zero, hidden_zero = view.input().zero_point, view.input(HIDDEN).zero_point
    scale = multiply_by_quantized_multiplier_int64 if wide else multiply_by_quantized_multiplier
    forget_scaling, new_scaling, hidden_scaling = product_scalings(view)
    curve_scaling, limits = cell_scaling(view), np.iinfo(hidden.dtype)
    rows = []
    for step in steps_first(view, x).astype(np.int64):
        sums = []
        for number in range(4):
            weights, recurrent, bias = (a.astype(np.int64) for a in gate(view, number))
            by_input, by_hidden = gate_scalings(view, number)
            total = _int16(scale((step - zero) @ weights.T + bias, *by_input))
            total = total + _int16(scale((h.astype(np.int64) - hidden_zero) @ recurrent.T, *by_hidden))
            sums.append(int16_values(_int16(total), GATE_STEP, 0, is_tanh=number == 2))
        into, forget, new, output = sums
        kept = _int16(multiply_by_quantized_multiplier(forget * c, *forget_scaling))
        added = _int16(multiply_by_quantized_multiplier(into * new, *new_scaling))
        c[...] = np.clip(_int16(kept + added), *cell_limits(view))
        curve = int16_values(c, *curve_scaling, is_tanh=True)
        product = multiply_by_quantized_multiplier(curve * output, *hidden_scaling) + hidden_zero
        h[...] = np.clip(product, limits.min, limits.max)
        rows.append(h.copy())
    return np.ascontiguousarray(steps_first(view, np.stack(rows)))


def _int16(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.clip(values, -32768, 32767)


def lower(view: OperatorView, isa: Isa) -> Lowered:
    wide = view.input().dtype is DType.INT16
    curve = Constant(sigmoid_table().astype("<u2").tobytes(), 2)
    multiplier, shift = cell_scaling(view)
    numbers = [multiplier, 1 << (shift - 1) if shift else 0, shift, *cell_limits(view)]
    for factor, by in product_scalings(view):
        numbers += [factor, *split_shift(by)]
    numbers.append(view.input(HIDDEN).zero_point)
    rescalings: list[int] = []
    for part in range(2):
        for factor, by in (gate_scalings(view, number)[part] for number in KERNEL_ORDER):
            rescalings += [*reduce_multiplier(factor, by), 0] if wide else [factor, *split_shift(by)]
    held = Constant(np.array(rescalings, "<i4").tobytes())
    arguments = (*shape_arguments(view, _biases(view)), held, curve, *numbers)
    quads = isinstance(isa, PairIsa) and not wide and QUAD in lanes(view)
    small = not wide and _sums_bound(view) < 1 << 29 and not any(rescalings[1::RESCALING_WORDS])
    kernel = IntegerLstm(isa, *lanes(view), ELEMENTS[view.input().dtype], quads, small)
    return Lowered((KernelCall(kernel, arguments),), macs=macs(view))


def _sums_bound(view: OperatorView) -> int:
    """A bound of the magnitude of all sums of int8 inputs, which are at most 255 from their zero point."""
    bounds = []
    for number in range(4):
        weights, recurrent, bias = (np.abs(a.astype(np.int64)) for a in gate(view, number))
        bounds += [255 * weights.sum(1) + bias, 255 * recurrent.sum(1)]
    return int(max(bound.max() for bound in bounds))


def _biases(view: OperatorView) -> Array:
    """[units, 2, gates]: what the sums of the input and of the hidden values begin with, zero points included."""
    zero, hidden_zero = view.input().zero_point, view.input(HIDDEN).zero_point
    pairs = []
    for number in KERNEL_ORDER:
        weights, recurrent, bias = (a.astype(np.int64) for a in gate(view, number))
        pairs.append(np.stack([bias - zero * weights.sum(1), -hidden_zero * recurrent.sum(1)], axis=1))
    wide = view.input().dtype is DType.INT16
    return np.stack(pairs, axis=2).astype("<i8" if wide else "<i4")
