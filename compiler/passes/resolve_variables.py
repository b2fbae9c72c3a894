# SPDX-License-Identifier: Apache-2.0
"""Resource variables become variables of the main graph, with the values that CALL_ONCE assigns before the first run.

A read is the variable itself, or what was assigned to it before in the same run. The last assignment stands behind
all other operators, so that none reads the variable after it.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import ABSENT, Graph, Operator, Tensor
from compiler.ops.definition import Array
from compiler.ops.var_handle import VarHandleAttributes
from compiler.passes.fold_constants import fold_constants

Key = VarHandleAttributes


def resolve_variables(graph: Graph) -> Graph:
    """The graph without the handles, reads and CALL_ONCE of variables that follow the rule; others stay as they are."""
    handles = _handles(graph)
    calls = [op for op in graph.operators if op.op == "CALL_ONCE"]
    if not handles and not calls:
        return graph
    initial: dict[Key, Tensor] = {}
    resolved: list[Operator] = []
    for call in calls:
        values = _assigned_once(graph.subgraphs.get(call.attributes.subgraph))
        if values is not None:
            initial |= values
            resolved.append(call)
    variables = _variables(graph, handles, initial)
    return _rewritten(graph, handles, variables, resolved)


def _handles(graph: Graph) -> dict[int, Key]:
    """The tensor of each handle with its variable."""
    return {op.outputs[0]: op.attributes for op in graph.operators if op.op == "VAR_HANDLE" and op.outputs}


def _assigned_once(graph: Graph | None) -> dict[Key, Tensor] | None:
    """The constants that a subgraph assigns; None where it does anything else."""
    if graph is None:
        return None
    graph = fold_constants(graph)
    handles = _handles(graph)
    values: dict[Key, Tensor] = {}
    for operator in graph.operators:
        if _is_assignment(operator) and operator.inputs[0] in handles:
            value = graph.tensor(operator.inputs[1])
            if not value.is_constant:
                return None
            values[handles[operator.inputs[0]]] = value
        elif operator.op != "VAR_HANDLE":
            return None
    return values


def _is_assignment(operator: Operator) -> bool:
    return operator.op == "ASSIGN_VARIABLE" and len(operator.inputs) == 2 and ABSENT not in operator.inputs


def _variables(graph: Graph, handles: dict[int, Key], initial: dict[Key, Tensor]) -> dict[Key, Tensor]:
    """A new tensor for each variable that follows the rule."""
    forms: dict[Key, list[Tensor]] = {key: [] for key in handles.values()}
    broken: set[Key] = set()
    for operator in graph.operators:
        if operator.op == "VAR_HANDLE":
            continue
        for position, key in ((p, handles[i]) for p, i in enumerate(operator.inputs) if i in handles):
            if operator.op == "READ_VARIABLE" and len(operator.outputs) == 1:
                forms[key].append(graph.tensor(operator.outputs[0]))
            elif _is_assignment(operator) and position == 0:
                forms[key].append(graph.tensor(operator.inputs[1]))
            else:
                broken.add(key)
    following = max(graph.tensors) + 1
    found: dict[Key, Tensor] = {}
    for key, tensors in forms.items():
        value = initial.get(key)
        if value is None or key in broken or any(not _alike(value, tensor) for tensor in tensors):
            continue
        data: Array = value.constant
        found[key] = replace(
            value, index=following + len(found), name=key.shared_name, data=None, is_variable=True, initial=data
        )
    return found


def _alike(a: Tensor, b: Tensor) -> bool:
    return a.dtype is b.dtype and a.shape == b.shape and a.quantization == b.quantization


def _rewritten(graph: Graph, handles: dict[int, Key], variables: dict[Key, Tensor], resolved: list[Operator]) -> Graph:
    following = max([*graph.tensors, *(t.index for t in variables.values())]) + 1
    current = {key: tensor.index for key, tensor in variables.items()}
    source_of: dict[int, int] = {}
    stores: dict[Key, Operator] = {}
    kept: list[Operator] = []
    for operator in graph.operators:
        operator = replace(operator, inputs=tuple(source_of.get(i, i) for i in operator.inputs))
        handle = next((i for i in (*operator.inputs, *operator.outputs) if i in handles), None)
        key = None if handle is None else handles[handle]
        if operator in resolved or (operator.op == "VAR_HANDLE" and key in variables):
            continue
        if key is None or key not in variables:
            kept.append(operator)
        elif operator.op == "READ_VARIABLE":
            source_of[operator.outputs[0]] = current[key]
        else:
            current[key] = operator.inputs[1]
            stores[key] = operator
    graph = graph.with_tensors(*variables.values())
    copies: list[Operator] = []
    states = {tensor.index for tensor in variables.values()}
    for key, store in stores.items():
        value = current[key]
        if value == variables[key].index:
            continue
        if value in states:
            # The other variable may be assigned first: its value of this run is kept apart.
            made = replace(graph.tensor(value), index=following, is_variable=False, initial=None)
            copies.append(Operator(store.index, "COPY", (value,), (following,)))
            graph, value, following = graph.with_tensors(made), following, following + 1
        kept.append(replace(store, inputs=(variables[key].index, value)))
    outputs = tuple(source_of.get(i, i) for i in graph.outputs)
    return replace(graph, operators=(*copies, *kept), outputs=outputs)
