# SPDX-License-Identifier: Apache-2.0
"""A whole graph computed by the operators' NumPy references: the oracle that travels with the compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler.graph import Graph
from compiler.ops import operators
from compiler.ops.definition import Array, OperatorView


def evaluate(graph: Graph, inputs: Sequence[Array]) -> Mapping[int, Array]:
    """Every tensor of the graph, by index, for one set of inputs in the order of `graph.inputs`."""
    values: dict[int, Array] = {i: t.data for i, t in graph.tensors.items() if t.data is not None}
    for index, array in zip(graph.inputs, inputs, strict=True):
        tensor = graph.tensor(index)
        if array.dtype != tensor.dtype.numpy or array.shape != tensor.shape:
            raise ValueError(f"{tensor} cannot hold {array.dtype}{list(array.shape)}")
        values[index] = array
    for operator in graph.operators:
        view = OperatorView(graph, operator)
        operands = [values.get(i) for i in operator.inputs]
        results = operators()[operator.op].reference(view, operands)
        values.update(zip(operator.outputs, results, strict=True))
    return values


def outputs_of(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    """The graph's outputs for one set of inputs."""
    values = evaluate(graph, inputs)
    return [values[i] for i in graph.outputs]
