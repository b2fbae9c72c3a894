# SPDX-License-Identifier: Apache-2.0
"""The sequence LSTM: forms that the golden models lack (int16x8, batches, time major, zero points), and refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from boards.loader import load_board
from compiler.compile import compile_graph
from compiler.graph import ABSENT, DType, Graph, Operator, Tensor
from compiler.model import Model
from compiler.ops.activation import Activation
from compiler.ops.definition import Array, OperatorView
from compiler.ops.lstm import CELL, HIDDEN, LstmAttributes
from compiler.reference import outputs_of_rows
from tests.harness import core_boards, run
from tests.unit.compiler.ops.build import refusal, tensor
from toolchain.target import target_of

BATCHES, STEPS, INPUTS, UNITS = 2, 3, 7, 5
INTEGER_SCALES = {DType.INT8: (0.03, 0.0078125, 0.0005), DType.INT16: (0.0001, 2.0**-15, 2.0**-12)}


def lstm(kind: DType, time_major: bool = False, clip: float = 0.0, cell_scale: float | None = None) -> Graph:
    """An LSTM as operator 0; int8 tensors have zero points."""
    rng = np.random.default_rng(3)
    quantized = kind is not DType.FLOAT32
    scale_in, scale_hidden, scale_bias = INTEGER_SCALES.get(kind, (1.0, 1.0, 1.0))
    zeros = (-7, 4) if kind is DType.INT8 else (0, 0)
    weight_type = DType.INT8 if quantized else kind
    bias_type = {DType.INT8: DType.INT32, DType.INT16: DType.INT64}.get(kind, kind)
    cell_type = DType.INT16 if quantized else kind
    made: dict[int, Tensor] = {}

    def add(index: int, shape: tuple[int, ...], dtype: DType, scale: float, zero: int = 0, data: Any = None) -> None:
        made[index] = tensor(index, shape, dtype, scale if quantized else None, zero, data)

    def values(count: tuple[int, ...], limit: int) -> Array:
        return rng.integers(-limit, limit + 1, count) if quantized else rng.standard_normal(count) * 0.6

    rows = (STEPS, BATCHES) if time_major else (BATCHES, STEPS)
    add(0, (*rows, INPUTS), kind, scale_in, zeros[0])
    for gate in range(4):
        add(1 + gate, (UNITS, INPUTS), weight_type, 0.01 + gate / 500, 0, values((UNITS, INPUTS), 127))
        add(5 + gate, (UNITS, UNITS), weight_type, 0.008 + gate / 600, 0, values((UNITS, UNITS), 127))
        add(12 + gate, (UNITS,), bias_type, scale_bias, 0, values((UNITS,), 3000))
    add(HIDDEN, (BATCHES, UNITS), kind, scale_hidden, zeros[1])
    add(CELL, (BATCHES, UNITS), cell_type, cell_scale or 2.0**-11)
    for index in (HIDDEN, CELL):
        made[index] = replace(made[index], is_variable=True)
    add(24, (*rows, UNITS), kind, scale_hidden, zeros[1])
    inputs = tuple(i if i in made else ABSENT for i in range(24))
    attributes = LstmAttributes(Activation.TANH, clip, time_major)
    operator = Operator(0, "UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, (24,), attributes)
    return Graph("lstm", made, (operator,), (0,), (24,))


def rows_for(graph: Graph, count: int) -> list[list[Array]]:
    source = graph.tensor(0)
    rng = np.random.default_rng(4)
    if source.dtype is DType.FLOAT32:
        return [[rng.standard_normal(source.shape).astype(np.float32)] for _ in range(count)]
    limits = np.iinfo(source.dtype.numpy)
    drawn = [rng.integers(limits.min, limits.max + 1, source.shape).astype(source.dtype.numpy) for _ in range(count)]
    extreme = [np.full(source.shape, value, source.dtype.numpy) for value in (limits.min, limits.max)]
    return [[row] for row in (*drawn, *extreme)]


@pytest.mark.parametrize("core", ("cortex-m4", "rv32ec"))
@pytest.mark.parametrize(
    "graph",
    (
        lstm(DType.INT8, clip=1.25),
        lstm(DType.INT8, True, cell_scale=2.0**-13),
        lstm(DType.INT16, clip=2.0),
        lstm(DType.INT16, True),
        lstm(DType.FLOAT32, clip=0.5),
        lstm(DType.FLOAT32, True),
    ),
    ids=("int8", "int8_time_major", "int16", "int16_time_major", "float", "float_time_major"),
)
def test_kernel_is_the_reference(core: str, graph: Graph, tmp_path: Path) -> None:
    assert refusal(OperatorView(graph, graph.operators[0])) is None
    rows = rows_for(graph, 4)
    expected = list(outputs_of_rows(graph, rows))
    model = compile_graph(graph, Model("lstm.tflite", b""), target_of(load_board(core_boards()[core]).core))
    for found, want in zip(run(model, rows, tmp_path), expected, strict=True):
        assert np.array_equal(found[0], want[0])


@pytest.mark.parametrize("kind", (DType.INT8, DType.FLOAT32))
def test_time_major_is_the_same_sequence(kind: DType) -> None:
    plain, swapped = lstm(kind), lstm(kind, True)
    rows = rows_for(plain, 3)
    exchanged = [[row[0].swapaxes(0, 1)] for row in rows]
    for a, b in zip(outputs_of_rows(plain, rows), outputs_of_rows(swapped, exchanged), strict=True):
        assert np.array_equal(a[0], b[0].swapaxes(0, 1))


def test_one_long_run_is_two_short_ones() -> None:
    graph = lstm(DType.FLOAT32)
    rows = rows_for(graph, 2)
    long = [np.concatenate([rows[0][0], rows[1][0]], axis=1)]
    changed = [
        replace(graph.tensor(0), shape=long[0].shape),
        replace(graph.tensor(24), shape=(BATCHES, 2 * STEPS, UNITS)),
    ]
    (whole,) = next(iter(outputs_of_rows(graph.with_tensors(*changed), [long])))
    first, second = outputs_of_rows(graph, rows)
    assert np.array_equal(whole, np.concatenate([first[0], second[0]], axis=1))


def refused(graph: Graph, inputs: dict[int, int] | None = None, **attributes: Any) -> str:
    (operator,) = graph.operators
    given = tuple((inputs or {}).get(position, index) for position, index in enumerate(operator.inputs))
    operator = replace(operator, inputs=given, attributes=replace(operator.attributes, **attributes))
    return refusal(OperatorView(graph, operator)) or ""


def test_optional_inputs_are_refused_by_name() -> None:
    graph = lstm(DType.INT8)
    assert refused(graph, {9: 1}).endswith(": peephole weights")
    assert refused(graph, {16: 1}).endswith(": a projection")
    assert refused(graph, {20: 12, 11: 1}).endswith(": layer normalisation and peephole weights")
    assert refused(graph, {1: ABSENT}).endswith(": input 1 is absent")


def test_other_refusals() -> None:
    graph = lstm(DType.INT8)
    assert refused(graph, activation=Activation.RELU).endswith(": RELU")
    assert refused(graph, diagonal=True).startswith("Input [batches, steps, inputs]")
    assert "power of two" in refused(
        graph.with_tensors(replace(graph.tensor(CELL), quantization=graph.tensor(0).quantization))
    )
    assert "is no variable" in refused(graph.with_tensors(replace(graph.tensor(CELL), is_variable=False)))
    constant = replace(graph.tensor(0), data=np.zeros(graph.tensor(0).shape, np.int8))
    assert refused(graph.with_tensors(constant)).startswith("The input is no constant")
    assert "the input is UINT8" in refused(graph.with_tensors(replace(graph.tensor(0), dtype=DType.UINT8)))
    assert "input 1 is INT8" in refused(graph.with_tensors(replace(graph.tensor(0), dtype=DType.FLOAT32)))


@pytest.mark.parametrize(
    ("graph", "checksum"),
    (
        (lstm(DType.INT8, True, 1.25), 2036249619),
        (lstm(DType.INT16, clip=2.0), 2785489468),
        (lstm(DType.INT16, True), 2746594639),
    ),
    ids=("int8_time_major", "int16", "int16_time_major"),
)
def test_the_bytes_of_tflite_micro(graph: Graph, checksum: int) -> None:
    """CRC-32 of twelve rows' outputs as the PyPI package tflite-micro 0.dev20261023182759 computes them."""
    outputs = b"".join(row[0].tobytes() for row in outputs_of_rows(graph, rows_for(graph, 10)))
    assert crc32(outputs) == checksum
