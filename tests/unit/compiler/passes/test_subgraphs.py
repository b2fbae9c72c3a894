# SPDX-License-Identifier: Apache-2.0
"""Loops that are unrolled, branches that are chosen, and joined parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from compiler.errors import UnsupportedModel
from compiler.graph import DType, Graph, Operator, Quantization, Tensor
from compiler.ops.activation import Activation
from compiler.ops.arithmetic import ArithmeticAttributes
from compiler.ops.concatenation import ConcatenationAttributes
from compiler.ops.if_branch import IfAttributes
from compiler.ops.stablehlo_composite import CompositeAttributes
from compiler.ops.while_loop import WhileAttributes
from compiler.passes import run_passes
from compiler.passes.join_parts import join_parts
from compiler.reference import outputs_of
from compiler.support import check_supported

PRODUCT = ArithmeticAttributes(Activation.NONE)


def integer(index: int, *shape: int, data: Any = None, dtype: DType = DType.INT32) -> Tensor:
    array = None if data is None else np.asarray(data, dtype.numpy).reshape(shape)
    return Tensor(index, f"t{index}", dtype, shape, None, array)


def graph_of(
    tensors: list[Tensor], operators: list[Operator], inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> Graph:
    return Graph("test", {t.index: t for t in tensors}, tuple(operators), inputs, outputs)


def loop(limit: int, first: int = 1, compared: int = 0, factor: int = 2) -> Graph:
    """while carried[compared] < limit: counter *= factor; x *= 3, from counter `first` and input x [2]."""
    scalar = () if compared == 0 else (2,)
    condition = graph_of(
        [integer(0), integer(1, 2), integer(2, data=limit), integer(3, *scalar, dtype=DType.BOOL)],
        [Operator(0, "LESS", (compared, 2), (3,))],
        (0, 1),
        (3,),
    )
    body = graph_of(
        [integer(0), integer(1, 2), integer(2, data=factor), integer(3, data=3), integer(4), integer(5, 2)],
        [Operator(0, "MUL", (0, 2), (4,), PRODUCT), Operator(1, "MUL", (1, 3), (5,), PRODUCT)],
        (0, 1),
        (4, 5),
    )
    main = graph_of(
        [integer(0, 2), integer(1, data=first), integer(2), integer(3, 2)],
        [Operator(0, "WHILE", (1, 0), (2, 3), WhileAttributes(1, 2))],
        (0,),
        (3, 2),
    )
    return replace(main, subgraphs={1: condition, 2: body})


def outputs(graph: Graph, x: list[int]) -> list[list[int]]:
    after = run_passes(graph)
    check_supported(after, "test")
    return [np.asarray(o).reshape(-1).tolist() for o in outputs_of(after, [np.array(x, np.int32)])]


def refused(graph: Graph) -> list[str]:
    with pytest.raises(UnsupportedModel) as error:
        check_supported(run_passes(graph), "test")
    return list(error.value.reasons)


def test_a_counted_loop_is_unrolled() -> None:
    assert [op.op for op in run_passes(loop(8)).operators] == ["MUL", "MUL", "MUL", "COPY"]
    assert outputs(loop(8), [5, -1]) == [[135, -27], [8]]


def test_a_loop_without_iterations_hands_its_inputs_on() -> None:
    assert outputs(loop(1), [5, -1]) == [[5, -1], [1]]


@pytest.mark.parametrize("graph", (loop(8, compared=1), loop(8, factor=1)), ids=("data", "endless"))
def test_other_loops_are_refused(graph: Graph) -> None:
    (reason,) = refused(graph)
    assert reason.startswith("operator 0 WHILE ('t2'): the loop cannot be unrolled. The number of iterations follows")


def test_a_loop_whose_subgraph_is_missing_is_refused() -> None:
    graph = loop(8)
    assert len(refused(replace(graph, subgraphs={1: graph.subgraphs[1]}))) == 1


def test_values_keep_their_quantisation() -> None:
    graph = loop(8)
    body = graph.subgraphs[2]
    changed = body.with_tensors(replace(body.tensor(5), quantization=Quantization((0.5,), (0,))))
    assert len(refused(replace(graph, subgraphs={**graph.subgraphs, 2: changed}))) == 1


def branch(data: Any) -> Graph:
    """x * 2 if the condition else x * 5."""

    def times(factor: int) -> Graph:
        return graph_of(
            [integer(0, 2), integer(1, data=factor), integer(2, 2)],
            [Operator(0, "MUL", (0, 1), (2,), PRODUCT)],
            (0,),
            (2,),
        )

    main = graph_of(
        [integer(0, 2), integer(1, data=data, dtype=DType.BOOL), integer(2, 2)],
        [Operator(0, "IF", (1, 0), (2,), IfAttributes(1, 2))],
        (0,) if data is not None else (0, 1),
        (2,),
    )
    return replace(main, subgraphs={1: times(2), 2: times(5)})


def test_a_known_branch_is_chosen() -> None:
    assert outputs(branch(True), [3, 4]) == [[6, 8]]
    assert outputs(branch(False), [3, 4]) == [[15, 20]]


def test_a_branch_on_an_input_is_refused() -> None:
    (reason,) = refused(branch(None))
    assert "the branch depends on the input" in reason


def test_a_composite_is_its_definition() -> None:
    graph = branch(True)
    operator = Operator(0, "STABLEHLO_COMPOSITE", (0,), (2,), CompositeAttributes(2))
    assert outputs(replace(graph, operators=(operator,)), [3, 4]) == [[15, 20]]


def joined(begin: int, size: int) -> Graph:
    """Rows 0 and 1, then the `size` rows from `begin` on of rows 0, 1, 0: all joined."""
    tensors = [
        integer(0, 1, 2), integer(1, 1, 2), integer(2, 3, 2), integer(3, 2, data=[begin, 0]),
        integer(4, 2, data=[size, 2]), integer(5, size, 2), integer(6, 2 + size, 2),
    ]  # fmt: skip
    operators = [
        Operator(0, "CONCATENATION", (0, 1, 0), (2,), ConcatenationAttributes(-2)),
        Operator(1, "SLICE", (2, 3, 4), (5,)),
        Operator(2, "CONCATENATION", (0, 1, 5), (6,), ConcatenationAttributes(0)),
    ]
    return graph_of(tensors, operators, (0, 1), (6,))


@pytest.mark.parametrize(("begin", "size", "members"), [(1, 2, (0, 1, 1, 0)), (0, 1, (0, 1, 0)), (1, 0, (0, 1))])
def test_parts_are_joined_at_once(begin: int, size: int, members: tuple[int, ...]) -> None:
    assert join_parts(joined(begin, size)).operators[-1].inputs == members
    if size:
        rows = [np.array([[1, 2]], np.int32), np.array([[3, 4]], np.int32)]
        before, after = joined(begin, size), run_passes(joined(begin, size))
        assert [op.op for op in after.operators] == ["CONCATENATION"]
        assert np.array_equal(outputs_of(before, rows)[0], outputs_of(after, rows)[0])


def test_a_part_that_is_cut_stays() -> None:
    graph = joined(0, 2)
    pairs = [replace(graph.tensor(0), shape=(2, 2)), replace(graph.tensor(2), shape=(5, 2))]
    graph = graph.with_tensors(*pairs, replace(graph.tensor(3), data=np.array([1, 0], np.int32)))
    graph = graph.with_tensors(replace(graph.tensor(6), shape=(5, 2)))
    assert join_parts(graph).operators[-1].inputs == (0, 1, 5)


def test_a_subgraph_inside_itself_is_refused() -> None:
    graph = branch(True)
    twice = [Operator(i, "STABLEHLO_COMPOSITE", (0,), (i + 1,), CompositeAttributes(2)) for i in (0, 1)]
    inner = graph_of([integer(i, 2) for i in range(3)], twice, (0,), (2,))
    operator = Operator(0, "STABLEHLO_COMPOSITE", (0,), (2,), CompositeAttributes(2))
    assert len(refused(replace(graph, operators=(operator,), subgraphs={2: inner}))) == 1
