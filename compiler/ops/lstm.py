# SPDX-License-Identifier: Apache-2.0
"""What the forms of an LSTM have in common: positions of inputs, sizes, the order of weights in memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from compiler.kernels.kernel import Argument, Constant, Place, Role
from compiler.kernels.portable.loops import lanes_of
from compiler.ops.activation import Activation
from compiler.ops.definition import Array, OperatorView

INPUT_WEIGHTS, RECURRENT_WEIGHTS, BIASES = (1, 2, 3, 4), (5, 6, 7, 8), (12, 13, 14, 15)
"""For the gates input, forget, cell, output."""
HIDDEN, CELL = 18, 19
KERNEL_ORDER = (0, 1, 3, 2)
"""The kernels take the gates as input, forget, output, cell."""


@dataclass(frozen=True)
class LstmAttributes:
    """Options of the sequence LSTM. `cell_clip` bounds the cell state where it is above zero."""

    activation: Activation = Activation.NONE
    cell_clip: float = 0.0
    time_major: bool = False
    diagonal: bool = False


@dataclass(frozen=True)
class Sizes:
    """The sizes of the sequence."""

    batches: int
    steps: int
    inputs: int
    units: int


def sizes(view: OperatorView) -> Sizes:
    first, second, inputs = view.input().shape
    batches, steps = (second, first) if view.attributes.time_major else (first, second)
    return Sizes(batches, steps, inputs, view.input(INPUT_WEIGHTS[0]).shape[0])


def steps_first(view: OperatorView, x: Array) -> Array:
    """A sequence as [steps, batches, values]; the same exchange leads back."""
    return x if view.attributes.time_major else x.swapaxes(0, 1)


def gate(view: OperatorView, number: int) -> tuple[Array, Array, Array]:
    """Input weights, recurrent weights and bias of gate input, forget, cell or output."""
    positions = INPUT_WEIGHTS[number], RECURRENT_WEIGHTS[number], BIASES[number]
    weights, recurrent, bias = (view.input(p).constant for p in positions)
    return weights, recurrent, bias


def packed_weights(view: OperatorView) -> Array:
    """For each unit the weights of the input, then of the hidden values: [blocks, gates, values of a block]."""
    parts = []
    for part, block in enumerate(lanes(view)):
        rows = np.stack([gate(view, number)[part] for number in KERNEL_ORDER], axis=1)
        units, gates, values = rows.shape
        blocks = rows.reshape(units, gates, values // block, block).swapaxes(1, 2)
        parts.append(blocks.reshape(units, gates * values))
    return np.concatenate(parts, axis=1)


def shape_arguments(view: OperatorView, bias: NDArray[np.generic]) -> tuple[Argument, ...]:
    """The arguments `compiler.kernels.portable.lstm.SHAPE`."""
    s, size = sizes(view), view.input().dtype.bytes
    rows = (s.steps, s.batches) if not view.attributes.time_major else (s.batches, s.steps)
    row_in, row_out = s.inputs * size, s.units * size
    strides = [row_in, rows[0] * row_in, row_out, rows[0] * row_out]
    if view.attributes.time_major:
        strides = [rows[0] * row_in, row_in, rows[0] * row_out, row_out]
    return (
        Place(Role.INPUT, 0), Place(Role.OUTPUT), Place(Role.INPUT, HIDDEN), Place(Role.INPUT, CELL),
        _held(packed_weights(view)), _held(bias),
        s.batches, s.steps, s.units, row_in, row_out, *strides,
    )  # fmt: skip


def _held(array: NDArray[np.generic]) -> Constant:
    return Constant(np.ascontiguousarray(array).tobytes(), 8)


def lanes(view: OperatorView) -> tuple[int, int]:
    """Products a step of the input's and of the hidden sums."""
    s = sizes(view)
    return lanes_of(s.inputs), lanes_of(s.units)


def macs(view: OperatorView) -> int:
    s = sizes(view)
    return prod((s.batches, s.steps, 4 * s.units, s.inputs + s.units))
