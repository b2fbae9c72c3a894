# SPDX-License-Identifier: Apache-2.0
"""The float form of the sequence LSTM: reference and lowering.

Source: TensorFlow Lite, kernels/lstm_eval.cc (EvalFloat).
"""

from __future__ import annotations

import numpy as np

from compiler import float_numerics
from compiler.isa import Isa
from compiler.kernels.kernel import KernelCall, Lowered
from compiler.kernels.portable.lstm import FloatLstm
from compiler.ops.definition import Array, OperatorView
from compiler.ops.lstm import KERNEL_ORDER, gate, lanes, macs, shape_arguments, sizes, steps_first


def evaluate(view: OperatorView, x: Array, hidden: Array, cell: Array) -> Array:
    """The output; changes the states in place."""
    s, clip = sizes(view), view.attributes.cell_clip
    h, c = hidden.reshape(s.batches, s.units), cell.reshape(s.batches, s.units)
    rows = []
    with np.errstate(all="ignore"):
        for step in steps_first(view, x):
            sums = [
                (bias + _sum(step, weights)) + _sum(h, recurrent)
                for weights, recurrent, bias in (gate(view, number) for number in range(4))
            ]
            into, forget, output = (float_numerics.logistic(sums[number]) for number in (0, 1, 3))
            c[...] = forget * c + float_numerics.tanh(sums[2]) * into
            if clip > 0:
                c[...] = float_numerics.clamp(c, -clip, clip)
            h[...] = output * float_numerics.tanh(c)
            rows.append(h.copy())
    return np.ascontiguousarray(steps_first(view, np.stack(rows)))


def _sum(x: Array, weights: Array) -> Array:
    """x [batches, depth] times weights [units, depth], summed in order in float32."""
    total = np.zeros((len(x), len(weights)), np.float32)
    for d in range(x.shape[1]):
        total += x[:, d : d + 1] * weights[:, d]
    return total


def lower(view: OperatorView, isa: Isa) -> Lowered:
    bias = np.stack([gate(view, number)[2] for number in KERNEL_ORDER], axis=1)
    kernel = FloatLstm(isa, *lanes(view), view.attributes.cell_clip)
    return Lowered((KernelCall(kernel, shape_arguments(view, bias)),), macs=macs(view))
