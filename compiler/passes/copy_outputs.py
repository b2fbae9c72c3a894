# SPDX-License-Identifier: Apache-2.0
"""Outputs of the graph that are inputs, variables or constants get memory of their own."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, Operator, Tensor
from compiler.ops import operators


def copy_outputs(graph: Graph) -> Graph:
    """Copies them: inputs and resource variables before the first operator, which may change them; the states of
    operators behind the last one, as the reference hands them out after a run."""
    states = {i for operator in graph.operators for i in _updated(operator)}
    copies: dict[int, Tensor] = {}
    first: list[Operator] = []
    last: list[Operator] = []
    for index in graph.outputs:
        source = graph.tensor(index)
        if index in copies or not (source.is_constant or source.is_variable or index in graph.inputs):
            continue
        made = replace(source, index=max((*graph.tensors, -1)) + 1 + len(copies), data=None, is_variable=False)
        copies[index] = replace(made, initial=None)
        (last if source.is_constant or index in states else first).append(Operator(-1, "COPY", (index,), (made.index,)))
    outputs = tuple(copies[index].index if index in copies else index for index in graph.outputs)
    graph = graph.with_tensors(*copies.values())
    return replace(graph, operators=(*first, *graph.operators, *last), outputs=outputs)


def _updated(operator: Operator) -> list[int]:
    """The variables that an operator changes while it computes; ASSIGN_VARIABLE only keeps a value for the next run."""
    known = operators().get(operator.op)
    return [operator.inputs[i] for i in known.updates if i < len(operator.inputs)] if known and known.computes else []
