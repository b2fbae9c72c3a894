# SPDX-License-Identifier: Apache-2.0
"""A whole graph computed by the operators' NumPy references: the oracle that travels with the compiler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from compiler.graph import ABSENT, Graph, Operator
from compiler.ops import operators
from compiler.ops.definition import Array, OperatorView

State = dict[int, Array]
"""The elements of a graph's variables, by tensor index; `evaluate` changes them in place."""


def reset_state(graph: Graph) -> State:
    """The state after a reset."""
    return {tensor.index: tensor.reset_value.copy() for tensor in graph.state()}


def evaluate(graph: Graph, inputs: Sequence[Array], state: State | None = None) -> Mapping[int, Array]:
    """Every tensor of the graph, by index, for one set of inputs in the order of `graph.inputs`.

    `state` goes into the run and is left as the run leaves it; None is the state after a reset.
    """
    values: dict[int, Array] = {i: t.data for i, t in graph.tensors.items() if t.data is not None}
    state = reset_state(graph) if state is None else state
    for index, array in zip(graph.inputs, inputs, strict=True):
        tensor = graph.tensor(index)
        if array.dtype != tensor.dtype.numpy or array.shape != tensor.shape:
            raise ValueError(f"{tensor} cannot hold {array.dtype}{list(array.shape)}")
        values[index] = array
    for operator in graph.operators:
        view = OperatorView(graph, operator)
        operands = [_operand(operator, position, values, state) for position in range(len(operator.inputs))]
        results = operators()[operator.op].reference(view, operands)
        values.update(zip(operator.outputs, results, strict=True))
    return values


def outputs_of(graph: Graph, inputs: Sequence[Array], state: State | None = None) -> list[Array]:
    """The graph's outputs for one set of inputs; `state` as in `evaluate`."""
    values = evaluate(graph, inputs, state)
    return [values[i] for i in graph.outputs]


def outputs_of_rows(graph: Graph, rows: Iterable[Sequence[Array]]) -> Iterator[list[Array]]:
    """The outputs of consecutive runs that begin after a reset."""
    state = reset_state(graph)
    for inputs in rows:
        yield outputs_of(graph, inputs, state)


def tensors_of_rows(graph: Graph, rows: Iterable[Sequence[Array]]) -> dict[int, Array]:
    """The outputs of all operators and of the graph, [rows, *shape] by tensor index, of consecutive runs that begin
    after a reset."""
    state = reset_state(graph)
    wanted = {i for operator in graph.operators for i in operator.outputs} | set(graph.outputs)
    found: dict[int, list[Array]] = {i: [] for i in sorted(wanted)}
    for inputs in rows:
        values = evaluate(graph, inputs, state)
        for index, arrays in found.items():
            if index in values:
                arrays.append(np.array(values[index]))
    return {index: np.stack(arrays) for index, arrays in found.items() if arrays}


def _operand(operator: Operator, position: int, values: Mapping[int, Array], state: State) -> Array | None:
    """A variable is handed out itself only where the operator updates it; a result may share memory with an input."""
    index = operator.inputs[position]
    if index in state:
        updated = position in operators()[operator.op].updates
        return state[index] if updated else state[index].copy()
    return None if index == ABSENT else values[index]
