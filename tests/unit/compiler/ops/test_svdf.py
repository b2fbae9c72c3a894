# SPDX-License-Identifier: Apache-2.0
"""SVDF: what is refused, and states that the golden models lack: int8 with a zero point, a memory of one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from boards.loader import load_board
from compiler.compile import compile_graph
from compiler.graph import DType, Graph, Operator
from compiler.model import Model
from compiler.ops.activation import Activation
from compiler.ops.definition import OperatorView
from compiler.ops.svdf import SvdfAttributes
from compiler.reference import outputs_of_rows
from tests.harness import run
from tests.unit.compiler.ops.build import refusal, tensor
from toolchain.target import target_of


def svdf(state: DType, batches: int, inputs: int, units: int, memory: int, rank: int) -> Graph:
    rng = np.random.default_rng(units * memory)
    filters = units * rank
    time_type = DType.INT16 if state is DType.INT16 else DType.INT8
    made = [
        tensor(0, (batches, inputs), scale=0.05, zero_point=-5),
        tensor(1, (filters, inputs), scale=0.01, data=rng.integers(-127, 128, (filters, inputs))),
        tensor(2, (filters, memory), time_type, 0.002, data=rng.integers(-127, 128, (filters, memory))),
        tensor(3, (units,), DType.INT32, 0.0001, data=rng.integers(-900, 900, units)),
        replace(tensor(4, (batches, filters * memory), state, 0.05, 3 if state is DType.INT8 else 0), is_variable=True),
        tensor(5, (batches, units), scale=0.02, zero_point=-7),
    ]  # fmt: skip
    operator = Operator(0, "SVDF", (0, 1, 2, 3, 4), (5,), SvdfAttributes(rank))
    return Graph("svdf", {t.index: t for t in made}, (operator,), (0,), (5,))


@pytest.mark.parametrize("state", (DType.INT8, DType.INT16))
@pytest.mark.parametrize("shape", ((1, 7, 3, 1, 2), (2, 12, 2, 6, 1), (1, 16, 2, 9, 3)))
def test_kernel_is_the_reference(state: DType, shape: tuple[int, int, int, int, int], tmp_path: Path) -> None:
    graph = svdf(state, *shape)
    assert refusal(OperatorView(graph, graph.operators[0])) is None
    rng = np.random.default_rng(5)
    rows = [[rng.integers(-128, 128, shape[:2]).astype(np.int8)] for _ in range(2 * shape[3] + 2)]
    expected = list(outputs_of_rows(graph, rows))
    assert len({row[0].tobytes() for row in expected}) > 2
    model = compile_graph(graph, Model("svdf.tflite", b""), target_of(load_board("qemu_m4").core))
    for found, want in zip(run(model, rows, tmp_path), expected, strict=True):
        assert np.array_equal(found[0], want[0])


def test_the_state_begins_at_its_zero_point() -> None:
    graph = svdf(DType.INT8, 1, 4, 2, 3, 1)
    silent = np.full((1, 4), -5, np.int8)
    (first,), (second,) = outputs_of_rows(graph, [[silent], [silent]])
    assert np.array_equal(first, second)


@pytest.mark.parametrize(
    ("index", "change", "got"),
    [
        (4, {"is_variable": False}, "Input 4 is a variable.: 't4' is none"),
        (4, {"dtype": DType.INT8}, "All is FLOAT32; or"),
        (0, {"data": np.zeros((1, 4), np.int8)}, "The input is no constant"),
        (1, {"data": None}, "The weights must be constant."),
        (5, {"shape": (1, 5)}, "Input [batches, inputs]"),
    ],
)
def test_refusals(index: int, change: dict[str, object], got: str) -> None:
    graph = svdf(DType.INT16, 1, 4, 2, 3, 1)
    graph = graph.with_tensors(replace(graph.tensor(index), **change))  # type: ignore[arg-type]
    assert (refusal(OperatorView(graph, graph.operators[0])) or "").startswith(got)


def test_int8_takes_no_relu6() -> None:
    graph = svdf(DType.INT16, 1, 4, 2, 3, 1)
    (operator,) = graph.operators
    view = OperatorView(graph, replace(operator, attributes=SvdfAttributes(1, Activation.RELU6)))
    assert (refusal(view) or "").endswith(": RELU6")


@pytest.mark.parametrize(
    ("graph", "checksum"),
    (
        (svdf(DType.INT8, 1, 16, 2, 9, 3), 2605360731),
        (svdf(DType.INT8, 2, 12, 2, 6, 1), 1275903359),
        (svdf(DType.INT16, 2, 12, 2, 6, 1), 1037705763),
    ),
    ids=("int8", "int8_batches", "int16"),
)
def test_the_bytes_of_tflite_micro(graph: Graph, checksum: int) -> None:
    """CRC-32 of 25 rows' outputs as the PyPI package tflite-micro 0.dev20261023182759 computes them."""
    rng = np.random.default_rng(9)
    rows = [[rng.integers(-128, 128, graph.tensor(0).shape).astype(np.int8)] for _ in range(25)]
    assert crc32(b"".join(row[0].tobytes() for row in outputs_of_rows(graph, rows))) == checksum
