# SPDX-License-Identifier: Apache-2.0
"""Fusion of RELU, RELU6 and RELU_N1_TO_1 into the operator before them, where that one clamps its output anyway."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, Operator
from compiler.ops.activation import Activation
from compiler.passes.rewrite import only_reader, with_operators
from compiler.support import unsupported

_ACTIVATIONS = {"RELU": Activation.RELU, "RELU6": Activation.RELU6, "RELU_N1_TO_1": Activation.RELU_N1_TO_1}
_CLAMPING = (
    "ADD",
    "AVERAGE_POOL_2D",
    "CONV_2D",
    "DEPTHWISE_CONV_2D",
    "FULLY_CONNECTED",
    "MAX_POOL_2D",
    "MUL",
    "SUB",
    "TRANSPOSE_CONV",
)


def fuse_activations(graph: Graph) -> Graph:
    """Makes an operator without activation write the output of the activation that alone reads it."""
    changed: dict[int, Operator | None] = {}
    for position, operator in enumerate(graph.operators):
        reader = _activation_after(graph, operator)
        if reader is None:
            continue
        fused = replace(
            operator,
            outputs=reader.outputs,
            attributes=replace(operator.attributes, activation=_ACTIVATIONS[reader.op]),
        )
        if unsupported(graph, fused) is None:
            changed[position] = fused
            changed[graph.operators.index(reader)] = None
    return with_operators(graph, changed)


def _activation_after(graph: Graph, operator: Operator) -> Operator | None:
    """The activation that may be fused: the tensor between the two has the quantisation of the result, so that the
    activation itself rescales nothing."""
    if (
        operator.op not in _CLAMPING
        or len(operator.outputs) != 1
        or operator.attributes.activation is not Activation.NONE
    ):
        return None
    reader = only_reader(graph, operator.outputs[0])
    if reader is None or reader.op not in _ACTIVATIONS or unsupported(graph, reader):
        return None
    between, result = graph.tensor(operator.outputs[0]), graph.tensor(reader.outputs[0])
    same = between.dtype is result.dtype and between.quantization == result.quantization
    return reader if same else None
