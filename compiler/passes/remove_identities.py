# SPDX-License-Identifier: Apache-2.0
"""Removal of operators that pass their first input on unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from compiler.graph import ABSENT, Graph
from compiler.ops.definition import OperatorView


def _same_type_and_shape(view: OperatorView) -> bool:
    source, output = view.input(), view.output()
    return source.dtype is output.dtype and source.shape == output.shape


def _same_quantization(view: OperatorView) -> bool:
    source, output = view.input(), view.output()
    return source.quantization == output.quantization and source.quantization is not None


def _one_like_input(view: OperatorView) -> bool:
    return len(view.inputs) == 1 and view.input().quantization == view.output().quantization


IDENTITIES: Mapping[str, Callable[[OperatorView], bool]] = {
    "CAST": lambda view: True,
    "CONCATENATION": _one_like_input,
    "EXPAND_DIMS": lambda view: True,
    "PAD": lambda view: True,
    "PADV2": lambda view: True,
    "QUANTIZE": _same_quantization,
    "RESHAPE": lambda view: True,
    "SQUEEZE": lambda view: True,
}
"""When an operator whose output has its input's type and shape is an identity."""


def remove_identities(graph: Graph) -> Graph:
    """Lets the readers of an identity's output read its input. Outputs of the graph keep their operator."""
    source_of: dict[int, int] = {}
    kept = []
    for operator in graph.operators:
        operator = replace(operator, inputs=tuple(source_of.get(i, i) for i in operator.inputs))
        test = IDENTITIES.get(operator.op) if len(operator.outputs) == 1 and ABSENT not in operator.inputs[:1] else None
        view = OperatorView(graph, operator)
        if (
            test
            and operator.inputs
            and operator.outputs[0] not in graph.outputs
            and _same_type_and_shape(view)
            and test(view)
        ):
            source_of[operator.outputs[0]] = operator.inputs[0]
        else:
            kept.append(operator)
    return replace(graph, operators=tuple(kept))
