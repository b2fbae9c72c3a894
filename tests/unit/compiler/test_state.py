# SPDX-License-Identifier: Apache-2.0
"""Variables from CALL_ONCE to memory: reads and assignments in any order, swaps, and outputs that nobody computes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boards.loader import load_board
from compiler.arena import check_plan, plan_arena
from compiler.compile import compile_graph
from compiler.errors import UnsupportedModel
from compiler.graph import DType, Graph, Operator, Quantization, Tensor
from compiler.model import Model
from compiler.ops.call_once import CallOnceAttributes
from compiler.ops.concatenation import ConcatenationAttributes
from compiler.ops.strided_slice import StridedSliceAttributes
from compiler.ops.var_handle import VarHandleAttributes
from compiler.passes import run_passes
from compiler.reference import outputs_of_rows, reset_state
from compiler.schedule import Schedule, build_schedule
from compiler.support import check_supported
from tests.harness import isa_of, run
from tests.streaming import FIRST, ROW, expected_windows, window_graph
from toolchain.target import target_of

CORE = "rv32imac"
SIZE = 4
A, B = VarHandleAttributes("", "a"), VarHandleAttributes("", "b")
FIRST_A, FIRST_B = np.full(SIZE, 7, np.int8), np.arange(SIZE, dtype=np.int8)


def vector(index: int, data: Any = None, dtype: DType = DType.INT8) -> Tensor:
    shape = () if dtype is DType.RESOURCE else (SIZE,)
    return Tensor(index, f"t{index}", dtype, shape, None, data)


def program(operators: list[Operator], outputs: tuple[int, ...]) -> Graph:
    """A graph of input 0 and the handles 10 (a) and 11 (b), which a subgraph initialises; tensors are made as used."""
    handles = (Operator(0, "VAR_HANDLE", (), (10,), A), Operator(1, "VAR_HANDLE", (), (11,), B))
    resources = {i: vector(i, dtype=DType.RESOURCE) for i in (10, 11)}
    stores = (Operator(2, "ASSIGN_VARIABLE", (10, 0), ()), Operator(3, "ASSIGN_VARIABLE", (11, 1), ()))
    constants = {0: vector(0, FIRST_A), 1: vector(1, FIRST_B)}
    once = Graph("once", {**resources, **constants}, (*handles, *stores), (), ())
    numbered = [replace(op, index=3 + i) for i, op in enumerate(operators)]
    used = {0, *outputs, *(i for op in operators for i in (*op.inputs, *op.outputs))} - {10, 11}
    tensors = {**resources, **{i: vector(i) for i in used}}
    calls = (Operator(0, "CALL_ONCE", (), (), CallOnceAttributes(1)),)
    return Graph("test", tensors, (*calls, *handles, *numbered), (0,), outputs, subgraphs={1: once})


def read(handle: int, tensor: int) -> Operator:
    return Operator(0, "READ_VARIABLE", (handle,), (tensor,))


def assign(handle: int, tensor: int) -> Operator:
    return Operator(0, "ASSIGN_VARIABLE", (handle, tensor), ())


def rows_of(graph: Graph, folder: Path, count: int = 4) -> list[list[list[int]]]:
    """The outputs of consecutive rows [r, r, r, r], by the reference and by compiled code, which must agree."""
    check_supported(graph, "test")
    rows = [[np.full(SIZE, r, np.int8)] for r in range(count)]
    expected = [[x.tolist() for x in outputs] for outputs in outputs_of_rows(graph, rows)]
    model = compile_graph(graph, Model("probe.tflite", b""), target_of(load_board("qemu_rv32imac").core))
    assert [[x.tolist() for x in outputs] for outputs in run(model, rows, folder)] == expected
    return expected


def schedule_of(graph: Graph) -> Schedule:
    schedule = build_schedule(graph, isa_of(CORE))
    check_plan(plan_arena(schedule.lifetimes(keep_inputs=False)))
    return schedule


def test_a_delay_of_one_run(tmp_path: Path) -> None:
    graph = run_passes(program([read(10, 1), assign(10, 0)], (1,)))
    assert [op.op for op in graph.operators] == ["COPY", "ASSIGN_VARIABLE"]
    assert rows_of(graph, tmp_path) == [[FIRST_A.tolist()], [[0] * SIZE], [[1] * SIZE], [[2] * SIZE]]


def test_a_read_behind_an_assignment_is_the_new_value(tmp_path: Path) -> None:
    graph = run_passes(program([read(10, 1), assign(10, 0), read(10, 2)], (1, 2)))
    found = rows_of(graph, tmp_path, 3)
    assert found == [[FIRST_A.tolist(), [0] * SIZE], [[0] * SIZE, [1] * SIZE], [[1] * SIZE, [2] * SIZE]]


def test_variables_are_swapped_at_once(tmp_path: Path) -> None:
    graph = run_passes(program([read(10, 1), read(11, 2), assign(10, 2), assign(11, 1)], (1, 2)))
    a, b = FIRST_A.tolist(), FIRST_B.tolist()
    assert rows_of(graph, tmp_path, 3) == [[a, b], [b, a], [a, b]]


def test_a_value_is_computed_in_its_variable(tmp_path: Path) -> None:
    join = Operator(0, "CONCATENATION", (1, 0), (2,), ConcatenationAttributes(0))
    graph = program(
        [read(10, 1), join, Operator(0, "STRIDED_SLICE", (2, 3, 4, 5), (6,), StridedSliceAttributes())], (6,)
    )
    numbers = {
        i: Tensor(i, f"n{i}", DType.INT32, (1,), None, np.array([v], np.int32)) for i, v in {3: 1, 4: 5, 5: 1}.items()
    }
    joined = replace(vector(2), shape=(2 * SIZE,))
    graph = replace(graph, tensors={**graph.tensors, **numbers, 2: joined}, operators=(*graph.operators, assign(10, 6)))
    graph = run_passes(graph)
    schedule = schedule_of(graph)
    # The slice is computed in the variable's memory: there is no dispatch for the assignment.
    assert [d.op for d in schedule.dispatches] == ["CONCATENATION", "STRIDED_SLICE"]
    assert rows_of(graph, tmp_path, 2) == [[[7, 7, 7, 0]], [[7, 7, 0, 1]]]


def test_the_window_shifts_in_place(tmp_path: Path) -> None:
    graph = window_graph()
    schedule = schedule_of(graph)
    assert [d.op for d in schedule.dispatches] == ["CONCATENATION", "STRIDED_SLICE"]
    state = schedule.state[1]
    buffer = schedule.lifetimes(keep_inputs=False)[state]
    assert (buffer.bytes, buffer.first, buffer.last) == (FIRST.size, 0, 1)
    rows = np.random.default_rng(3).integers(-128, 128, (5, ROW)).astype(np.int8)
    model = compile_graph(graph, Model("window.tflite", b""), target_of(load_board("qemu_rv32imac").core))
    found = run(model, [[row.reshape(1, 1, ROW)] for row in rows], tmp_path)
    assert all(np.array_equal(got, want) for (got,), want in zip(found, expected_windows(rows), strict=True))


def test_passthrough_constants_and_an_output_twice(tmp_path: Path) -> None:
    constant = np.array([9, 8, 7, 6], np.int8)
    tensors = {0: vector(0), 1: vector(1, constant)}
    graph = run_passes(Graph("test", tensors, (), (0,), (0, 1, 0), ("x",), ("same", "fixed", "again")))
    assert rows_of(graph, tmp_path, 2) == [[[r] * SIZE, constant.tolist(), [r] * SIZE] for r in range(2)]


def test_a_folded_output_is_a_constant(tmp_path: Path) -> None:
    shape = Tensor(1, "shape", DType.INT32, (1,), None)
    graph = Graph("test", {0: vector(0), 1: shape}, (Operator(0, "SHAPE", (0,), (1,)),), (0,), (1,))
    assert rows_of(run_passes(graph), tmp_path, 1) == [[[SIZE]]]


def test_the_zero_point_is_where_int8_begins() -> None:
    plain = Tensor(1, "s", DType.INT8, (2,), Quantization((0.5,), (-3,)), None, True)
    assert plain.reset_value.tolist() == [-3, -3]
    assert replace(plain, dtype=DType.INT16).reset_value.tolist() == [0, 0]
    assert reset_state(window_graph())[1].tolist() == FIRST.tolist()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({0: vector(0)}, "CALL_ONCE (no output): subgraph 1 does more"),
        ({0: replace(vector(0, np.zeros(5, np.int8)), shape=(5,))}, "VAR_HANDLE ('t10'): variable 'a' is not"),
    ],
)
def test_what_does_not_follow_the_rule_is_refused(change: dict[int, Tensor], reason: str) -> None:
    graph = program([read(10, 1), assign(10, 0)], (1,))
    once = graph.subgraphs[1]
    given = tuple(index for index, tensor in change.items() if not tensor.is_constant)
    graph = replace(graph, subgraphs={1: replace(once, tensors={**once.tensors, **change}, inputs=given)})
    with pytest.raises(UnsupportedModel) as refused:
        check_supported(run_passes(graph), "test")
    assert any(reason in r for r in refused.value.reasons), refused.value.reasons
