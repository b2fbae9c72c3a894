# SPDX-License-Identifier: Apache-2.0
"""Whether every operator of a graph can be compiled; all that cannot are told at once."""

from __future__ import annotations

from compiler.errors import UnsupportedModel
from compiler.graph import Graph, Operator
from compiler.ops import operators
from compiler.ops.definition import OperatorView, rule

ACCELERATORS = {
    "CUSTOM:edgetpu-custom-op": "compiled for the Edge TPU; use the model from before the Edge TPU compiler",
    "CUSTOM:ethos-u": "compiled for the Ethos-U; use the model from before Vela",
}
"""Operators that hold another processor's code."""


def check_supported(graph: Graph, model_name: str) -> None:
    """Raises UnsupportedModel that lists each unsupported operator and failed constraint with the operator's number
    in the model file, its name, and the tensor it computes."""
    reasons = [reason for operator in graph.operators if (reason := unsupported(graph, operator))]
    if reasons:
        raise UnsupportedModel(model_name, reasons)


def unsupported(graph: Graph, operator: Operator) -> str | None:
    """Why an operator cannot be compiled, or None where it can."""
    name = f"'{graph.tensor(operator.outputs[0]).name}'" if operator.outputs else "no output"
    where = f"operator {operator.index} {operator.op} ({name})"
    definition = operators().get(operator.op)
    if definition is None:
        return f"{where}: {_unknown(operator.op)}"
    if definition.computes and not operator.outputs:
        return f"{where}: it has no output. Every operator computes a tensor"
    view = OperatorView(graph, operator)
    for constraint in definition.constraints:
        got = constraint(view)
        if got is not None:
            return f"{where}: {got}. {rule(constraint)}"
    return None


def _unknown(op: str) -> str:
    """Why there is no definition of an operator."""
    if op.startswith("CUSTOM:"):
        what = ACCELERATORS.get(op, "custom, its code is not in the file")
        return f"not a supported operator: {what}"
    return "not a supported operator"
