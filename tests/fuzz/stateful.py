# SPDX-License-Identifier: Apache-2.0
"""Operators with a state, by chance. A model's rows are consecutive runs."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np

from tests.fuzz.draft import Draft
from tests.tflite_files import FileTensor

HIDDEN, CELL = 18, 19
"""The positions of an LSTM's states among its 24 inputs."""


def lstm(draft: Draft, index: int, x: FileTensor) -> bool:
    if len(x.shape) != 3 or x.dtype not in ("int8", "int16", "float32"):
        return False
    units, quantized = draft.integer(1, 9), x.dtype != "float32"
    batches, steps, depth = x.shape
    operands = [-1] * 24
    operands[0] = index
    for gate in range(4):
        for first, columns in ((1, depth), (5, units)):
            scale = draft.scale(2e-3, 2e-2) if quantized else 0.0
            operands[first + gate] = draft.constant(_weights(draft, (units, columns), quantized), scale)
        if quantized:
            scale = float(np.float32(x.scale * draft.tensors[operands[1 + gate]].scale))
            dtype = np.int64 if x.dtype == "int16" else np.int32
            operands[12 + gate] = draft.constant(draft.random.integers(-4000, 4001, units).astype(dtype), scale)
        else:
            operands[12 + gate] = draft.constant(draft.random.normal(0, 0.5, units).astype(np.float32))
    hidden = FileTensor("", (), x.dtype, *{"int8": (1 / 128,), "int16": (1 / 32768,)}.get(x.dtype, ()))
    operands[HIDDEN] = draft.variable((batches, units), x.dtype, hidden.scale)
    cell_scale = 2.0 ** -draft.integer(10, 13) if quantized else 0.0
    operands[CELL] = draft.variable((batches, units), "int16" if quantized else "float32", cell_scale)
    y = draft.add((batches, steps, units), x.dtype, hidden)
    options = {"FusedActivationFunction": 4, "CellClip": float(draft.choice(0.0, 1.5))}
    draft.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", operands, (y,), "UnidirectionalSequenceLSTMOptions", **options)
    if x.dtype == "int8":
        # LiteRT wants five, of which it takes the last one's quantisation for the hidden state's.
        first = len(draft.tensors)
        draft.tensors += [FileTensor(f"t{first + i}", (), "int16", 2.0**-12) for i in range(4)]
        draft.tensors.append(FileTensor(f"t{first + 4}", (), "int8", hidden.scale))
        draft.operators[-1] = replace(draft.operators[-1], intermediates=tuple(range(first, first + 5)))
    return True


def svdf(draft: Draft, index: int, x: FileTensor) -> bool:
    if len(x.shape) != 2 or x.dtype not in ("int8", "float32"):
        return False
    batches, depth = x.shape
    rank, units, memory = draft.integer(1, 2), draft.integer(1, 6), draft.integer(1, 6)
    filters, quantized = rank * units, x.dtype == "int8"
    by_feature, by_time = (draft.scale(2e-3, 2e-2), draft.scale(1e-4, 1e-3)) if quantized else (0.0, 0.0)
    feature = draft.constant(_weights(draft, (filters, depth), quantized), by_feature)
    # States have 8 or 16 bits, and so do the weights over time. They are small enough for sums of 32 bits.
    wide = draft.chance(0.7)
    time_weights = _weights(draft, (filters, memory), quantized)
    if quantized and wide:
        time_weights = time_weights.astype(np.int16) * np.int16(20)
    time = draft.constant(time_weights, by_time)
    state_scale = float(np.float32(x.scale * by_feature * 73 * 73 * sqrt(depth) / (9000 if wide else 40)))
    state = draft.variable(
        (batches, filters * memory), ("int16" if wide else "int8") if quantized else "float32",
        state_scale if quantized else 0.0,
    )  # fmt: skip
    if quantized:
        values = draft.random.integers(-9000, 9001, units).astype(np.int32)
        bias = draft.constant(values, float(np.float32(state_scale * by_time)))
    else:
        bias = draft.constant(draft.random.normal(0, 1, units).astype(np.float32)) if draft.chance(0.7) else -1
    y = draft.add((batches, units), x.dtype, scale=state_scale * by_time * (9e4 if wide else 60) * sqrt(rank * memory))
    options = {"Rank": rank, "FusedActivationFunction": draft.choice(0, 1)}
    return draft.operator("SVDF", (index, feature, time, bias, state), (y,), "SVDFOptions", **options)


def _weights(draft: Draft, shape: tuple[int, ...], quantized: bool) -> np.ndarray:
    if quantized:
        return draft.random.integers(-127, 128, shape).astype(np.int8)
    return draft.random.normal(0, 1 / sqrt(shape[-1]), shape).astype(np.float32)


STEPS = {"lstm": lstm, "svdf": svdf}
