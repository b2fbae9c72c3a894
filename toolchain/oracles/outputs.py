# SPDX-License-Identifier: Apache-2.0
"""A TFLite file as other runtimes are given it: with other outputs, so that they show their intermediate tensors."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import tflite

from compiler.frontends.tflite import builtin_number

SUBGRAPHS, OUTPUTS = 2, 2
"""The field numbers of Model.subgraphs and SubGraph.outputs in schema.fbs."""


def with_outputs(model: bytes, tensors: Sequence[int]) -> bytes:
    """The file with these tensors as outputs of its first subgraph. Its signatures name outputs that may be gone; the
    bytes of the file stay where they are, so that buffers outside the FlatBuffer are found."""
    table = tflite.Model.GetRootAs(model, 0).Subgraphs(0)._tab
    field = table.Offset(4 + 2 * OUTPUTS)
    if not field:
        raise ValueError("the model has no outputs")
    at = table.Pos + field
    changed = bytearray(model)
    changed += bytes(-len(changed) % 4)
    struct.pack_into("<I", changed, at, len(changed) - at)
    changed += struct.pack(f"<I{len(tensors)}i", len(tensors), *tensors)
    return bytes(changed)


def tensor_count(model: bytes) -> int:
    """The number of tensors in the first subgraph: passes number theirs from there on."""
    return int(tflite.Model.GetRootAs(model, 0).Subgraphs(0).TensorsLength())


def file_outputs(model: bytes) -> list[int]:
    """The tensors that the file has as outputs of its first subgraph."""
    graph = tflite.Model.GetRootAs(model, 0).Subgraphs(0)
    return [int(graph.Outputs(i)) for i in range(graph.OutputsLength())]


def has_open_sizes(model: bytes) -> bool:
    """Whether a WHILE's body has a SLICE whose sizes the file leaves open (-1 in the shape signature), because they
    change with each iteration."""
    file = tflite.Model.GetRootAs(model, 0)
    bodies = {
        _while_body(operator)
        for graph in (file.Subgraphs(i) for i in range(file.SubgraphsLength()))
        for operator in _operators(file, graph, tflite.BuiltinOperator.WHILE)
    }
    for number in bodies:
        graph = file.Subgraphs(number)
        for operator in _operators(file, graph, tflite.BuiltinOperator.SLICE):
            tensor = graph.Tensors(operator.Outputs(0))
            if any(tensor.ShapeSignature(i) < 0 for i in range(tensor.ShapeSignatureLength())):
                return True
    return False


def _operators(file: tflite.Model, graph: tflite.SubGraph, code: int) -> Iterator[tflite.Operator]:
    for operator in (graph.Operators(i) for i in range(graph.OperatorsLength())):
        if builtin_number(file.OperatorCodes(operator.OpcodeIndex())) == code:
            yield operator


def _while_body(operator: tflite.Operator) -> int:
    options = tflite.WhileOptions()
    table = operator.BuiltinOptions()
    options.Init(table.Bytes, table.Pos)
    return int(options.BodySubgraphIndex())
