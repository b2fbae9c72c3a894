# SPDX-License-Identifier: Apache-2.0
"""Removal of operators whose results nobody reads, and of tensors that no operator mentions."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import ABSENT, Graph, Operator
from compiler.ops import operators


def remove_dead(graph: Graph) -> Graph:
    """Keeps what the outputs need, operators that have state, and operators that are not known."""
    needed = set(graph.outputs)
    kept: list[Operator] = []
    for operator in reversed(graph.operators):
        if needed & set(operator.outputs) or operator.op not in operators() or _has_effect(operator):
            kept.append(operator)
            needed |= set(operator.inputs)
    kept.reverse()
    mentioned = (needed | {i for op in kept for i in op.outputs} | set(graph.inputs)) - {ABSENT}
    tensors = {index: tensor for index, tensor in graph.tensors.items() if index in mentioned}
    return replace(graph, operators=tuple(kept), tensors=tensors)


def _has_effect(operator: Operator) -> bool:
    return not operator.outputs or bool(operators()[operator.op].updates)
