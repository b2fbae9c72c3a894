# SPDX-License-Identifier: Apache-2.0
"""A graph cut down to the channels that are kept: shapes, weights, scales and biases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from compiler.graph import ABSENT, DType, Graph, Operator, Quantization, Tensor
from compiler.ops import layers
from compiler.ops.definition import Array, OperatorView
from compiler.passes.channel_links import Dense, Depthwise, Link, Mask, Masks
from compiler.passes.intervals import Constants


def slice_channels(graph: Graph, links: Mapping[int, Link], keep: Masks, constants: Mapping[int, Constants]) -> Graph:
    """The graph with the channels in `keep` (by tensor) alone; `constants` that are removed go into biases."""
    cut = graph.with_tensors(*(_narrowed(graph.tensor(t), mask) for t, mask in keep.items() if not mask.all()))
    for position, operator in enumerate(graph.operators):
        connection = links.get(operator.outputs[0]) if operator.outputs else None
        if isinstance(connection, Dense):
            cut = _dense(cut, position, connection, keep, constants[connection.input])
        elif isinstance(connection, Depthwise):
            outputs = keep[connection.output]
            bias = layers.bias_values(OperatorView(graph, operator), len(outputs))
            cut = _layer(cut, position, _weights(cut, operator)[..., outputs], outputs, bias)
        elif operator.op == "RESHAPE" and len(operator.inputs) > 1 and operator.inputs[1] != ABSENT:
            shape = cut.tensor(operator.inputs[1])
            data = np.array(cut.tensor(operator.outputs[0]).shape, shape.dtype.numpy)
            if data.size == shape.elements:
                cut = _with_constant(cut, position, 1, replace(shape, data=data.reshape(shape.shape)))
    return cut


def _narrowed(tensor: Tensor, mask: Mask) -> Tensor:
    return replace(tensor, shape=(*tensor.shape[:-1], int(mask.sum())))


def _weights(graph: Graph, operator: Operator) -> Array:
    return graph.tensor(operator.inputs[layers.FILTER_POSITION]).constant


def _dense(graph: Graph, position: int, layer: Dense, keep: Masks, constants: Constants) -> Graph:
    outputs, columns = keep[layer.output], layer.columns(keep[layer.input])
    removed = replace(constants, mask=constants.mask & ~keep[layer.input])
    # All windows see the same: what differs between them has been kept.
    bias = layer.bias + layer.parts(removed)[0].sum(1)
    return _layer(graph, position, _weights(graph, graph.operators[position])[outputs][..., columns], outputs, bias)


def _layer(graph: Graph, position: int, weights: Array, outputs: Mask, bias: NDArray[np.int64]) -> Graph:
    """The graph with a layer's weights, and its bias and scales cut down to `outputs`."""
    operator = graph.operators[position]
    view = OperatorView(graph, operator)
    old, old_bias = view.input(layers.FILTER_POSITION), view.optional(layers.BIAS_POSITION)
    if weights.shape == old.shape and (bias == layers.bias_values(view, len(bias))).all():
        return graph
    scales = _cut_scales(old.quantization, outputs)
    tensor = replace(old, shape=weights.shape, data=weights, quantization=scales)
    graph = _with_constant(graph, position, layers.FILTER_POSITION, tensor)
    if old_bias is None:
        if not bias.any():
            return graph
        dtype = DType.INT64 if layers.is_wide(view) else DType.INT32
        old_bias = Tensor(ABSENT, f"{view.output().name}/bias", dtype, bias.shape)
    values = bias[outputs].astype(old_bias.dtype.numpy)
    scales = _cut_scales(old_bias.quantization, outputs)
    tensor = replace(old_bias, shape=values.shape, data=values, quantization=scales)
    return _with_constant(graph, position, layers.BIAS_POSITION, tensor)


def _cut_scales(quantization: Quantization | None, outputs: Mask) -> Quantization | None:
    if quantization is None or len(quantization.scales) != len(outputs):
        return quantization
    kept = np.flatnonzero(outputs).tolist()
    return replace(
        quantization,
        scales=tuple(quantization.scales[i] for i in kept),
        zero_points=tuple(quantization.zero_points[i] for i in kept),
    )


def _with_constant(graph: Graph, position: int, operand: int, tensor: Tensor) -> Graph:
    """The graph in which an operator reads `tensor` as its input `operand`: under its old index where nobody else
    reads that, else under a new one."""
    operator = graph.operators[position]
    readers = sum(op.inputs.count(tensor.index) for op in graph.operators)
    if tensor.index == ABSENT or readers > 1 or tensor.index in graph.outputs:
        tensor = replace(tensor, index=max(graph.tensors) + 1)
    padding = (ABSENT,) * (operand + 1 - len(operator.inputs))
    inputs = (*operator.inputs, *padding)
    changed = replace(operator, inputs=(*inputs[:operand], tensor.index, *inputs[operand + 1 :]))
    operators = (*graph.operators[:position], changed, *graph.operators[position + 1 :])
    return replace(graph.with_tensors(tensor), operators=operators)
