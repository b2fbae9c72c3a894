# SPDX-License-Identifier: Apache-2.0
"""Constant folding by the operators' references. The shapes of a graph are known, so SHAPE and others fold whatever
their input: chains like SHAPE, STRIDED_SLICE, PACK that compute the shape of a RESHAPE become constants."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import ABSENT, Graph, Operator
from compiler.ops import operators
from compiler.ops.definition import Array, OperatorView
from compiler.passes.rewrite import with_operators
from compiler.support import unsupported


def fold_constants(graph: Graph) -> Graph:
    """Replaces operators with known results by constants."""
    for operator in graph.operators:
        results = known_results(graph, operator)
        if results is not None:
            tensors = (replace(t, data=r) for t, r in zip(graph.results(operator), results, strict=True))
            graph = with_operators(graph.with_tensors(*tensors), {graph.operators.index(operator): None})
    return graph


def known_results(graph: Graph, operator: Operator) -> list[Array] | None:
    """The outputs of a supported operator whose inputs are constant; None for others."""
    if not _is_known(graph, operator) or unsupported(graph, operator) is not None:
        return None
    operands = [None if i == ABSENT else graph.tensor(i).data for i in operator.inputs]
    return operators()[operator.op].reference(OperatorView(graph, operator), operands)


def _is_known(graph: Graph, operator: Operator) -> bool:
    if operator.op not in operators() or not operator.outputs:
        return False
    known = (i == ABSENT or graph.tensor(i).is_constant for i in operator.inputs)
    return operators()[operator.op].shapes_suffice or (bool(operator.inputs) and all(known))
