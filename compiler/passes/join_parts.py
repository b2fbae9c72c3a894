# SPDX-License-Identifier: Apache-2.0
"""Concatenations of concatenations, and of blocks cut from them, become concatenations of the parts.

An unrolled loop replaces one row of its result in each iteration: it joins the rows before it, the row, and the rows
behind it. Followed through, the result is one concatenation of all rows.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import ABSENT, DType, Graph, Operator, Tensor
from compiler.ops.concatenation import ConcatenationAttributes
from compiler.ops.definition import OperatorView
from compiler.ops.slice import inside, ranges


def join_parts(graph: Graph) -> Graph:
    """Rewrites concatenations whose inputs are made of parts along the same axis; empty inputs vanish."""
    parts: dict[int, tuple[int, list[int]]] = {}
    kept: list[Operator] = []
    for operator in graph.operators:
        made = _parts(graph, operator, parts)
        if made is not None:
            parts[operator.outputs[0]] = made
            axis, members = made
            if operator.op == "CONCATENATION" and members:
                attributes = replace(operator.attributes, axis=axis)
                operator = replace(operator, inputs=tuple(members), attributes=attributes)
        kept.append(operator)
    return replace(graph, operators=tuple(kept))


def _parts(graph: Graph, operator: Operator, parts: dict[int, tuple[int, list[int]]]) -> tuple[int, list[int]] | None:
    """The axis along which an operator's output is made of other tensors, and these."""
    if ABSENT in operator.inputs or len(operator.outputs) != 1 or not operator.inputs:
        return None
    output = graph.tensor(operator.outputs[0])
    if operator.op == "CONCATENATION" and output.shape and operator.attributes == _plain(operator):
        axis = operator.attributes.axis % len(output.shape)
        members: list[int] = []
        for index in operator.inputs:
            held = parts.get(index)
            if not _alike(graph.tensor(index), output, axis):
                return None
            if held is not None and held[0] == axis:
                members += held[1]
            elif graph.tensor(index).elements:
                members.append(index)
        return axis, members
    if operator.op == "SLICE" and operator.inputs[0] in parts:
        return _cut(graph, operator, *parts[operator.inputs[0]])
    return None


def _plain(operator: Operator) -> ConcatenationAttributes:
    return ConcatenationAttributes(operator.attributes.axis)


def _alike(tensor: Tensor, output: Tensor, axis: int) -> bool:
    others = (*tensor.shape[:axis], *tensor.shape[axis + 1 :]) == (*output.shape[:axis], *output.shape[axis + 1 :])
    return others and tensor.dtype is output.dtype and tensor.quantization == output.quantization


def _cut(graph: Graph, operator: Operator, axis: int, members: list[int]) -> tuple[int, list[int]] | None:
    """The parts that a SLICE along the axis takes whole; None where it cuts one."""
    view = OperatorView(graph, operator)
    source, output = view.input(), view.output()
    bounds = [graph.tensor(i) for i in operator.inputs[1:]]
    if len(bounds) != 2 or not all(b.is_constant and b.dtype in (DType.INT32, DType.INT64) for b in bounds):
        return None
    if inside(view) is not None or not _alike(source, output, axis):
        return None
    taken = ranges(view)[axis]
    at, found = 0, []
    for index in members:
        start, at = at, at + graph.tensor(index).shape[axis]
        if taken.start <= start and at <= taken.stop:
            found.append(index)
        elif start < taken.stop and taken.start < at:
            return None
    return axis, found
