# SPDX-License-Identifier: Apache-2.0
"""Small edits of graphs that passes are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compiler.graph import Graph, Operator


def with_operators(graph: Graph, changed: Mapping[int, Operator | None]) -> Graph:
    """The graph with operators, by position, replaced or (None) removed."""
    kept = (changed.get(position, operator) for position, operator in enumerate(graph.operators))
    return replace(graph, operators=tuple(operator for operator in kept if operator is not None))


def reading_instead(operator: Operator, old: int, new: int) -> Operator:
    """The operator with every read of tensor `old` made a read of `new`."""
    return replace(operator, inputs=tuple(new if index == old else index for index in operator.inputs))


def only_reader(graph: Graph, tensor: int) -> Operator | None:
    """The one operator that reads a tensor, where the tensor is no output of the graph and is read once."""
    readers = [operator for operator in graph.operators for index in operator.inputs if index == tensor]
    return readers[0] if len(readers) == 1 and tensor not in graph.outputs else None
