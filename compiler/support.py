# SPDX-License-Identifier: Apache-2.0
"""Whether every operator of a graph can be compiled; all that cannot are told at once."""

from __future__ import annotations

from compiler.errors import UnsupportedModel
from compiler.graph import Graph, Operator
from compiler.ops import operators
from compiler.ops.definition import OperatorView, rule

CUSTOM = {
    "edgetpu-custom-op": "compiled for the Edge TPU; use the model from before the Edge TPU compiler",
    "ethos-u": "compiled for the Ethos-U; use the model from before Vela",
    "CIRCULAR_BUFFER": "it ends most runs of the model early; keep what it holds in a variable (tf.Variable)",
    "Signal": "of TFLite Micro's audio front end; compute the features in the application and give them to the model",
    "TFLite_Detection_PostProcess": "end the model before it, and select boxes from its inputs in the application",
}
"""Known custom operators by the beginning of their names: why they are not supported, and what to do instead."""
OTHER_CUSTOM = "custom, its code is not in the file"


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
    if not op.startswith("CUSTOM:"):
        return "not a supported operator"
    name = op.removeprefix("CUSTOM:")
    why = next((why for start, why in CUSTOM.items() if name.startswith(start)), OTHER_CUSTOM)
    return f"not a supported operator: {why}"
