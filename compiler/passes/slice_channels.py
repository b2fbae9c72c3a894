# SPDX-License-Identifier: Apache-2.0
"""A graph cut down to the channels that are kept: shapes, weights, scales and biases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from compiler.graph import ABSENT, DType, Graph, Operator, Quantization, Tensor
from compiler.ops import layers
from compiler.ops.definition import Array, OperatorView
from compiler.passes.channel_links import Dense, Depthwise, Link, Mask
from compiler.passes.intervals import Constants


@dataclass(frozen=True, eq=False)
class Cut:
    """One tensor's channels [C]: those that are `kept`, and those that have a place (`held`, the kept among them); the
    others of these are filled with something harmless."""

    kept: Mask
    held: Mask

    @property
    def filled(self) -> Mask:
        """Which of the channels that are held are not kept [held]."""
        return ~self.kept[self.held]


def slice_channels(
    graph: Graph, links: Mapping[int, Link], cuts: Mapping[int, Cut], constants: Mapping[int, Constants]
) -> Graph:
    """The graph with the channels that `cuts` (by tensor) hold; `constants` that are not kept go into biases."""
    cut = graph.with_tensors(*(_narrowed(graph.tensor(t), c.held) for t, c in cuts.items() if not c.held.all()))
    for position, operator in enumerate(graph.operators):
        connection = links.get(operator.outputs[0]) if operator.outputs else None
        if isinstance(connection, Dense):
            cut = _dense(cut, position, connection, cuts, constants[connection.input])
        elif isinstance(connection, Depthwise):
            outputs = cuts[connection.output]
            bias = layers.bias_values(OperatorView(graph, operator), len(outputs.kept))
            weights = _weights(cut, operator)[..., outputs.held]
            weights[..., outputs.filled] = 0
            cut = _layer(cut, position, weights, outputs, bias)
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


def _dense(graph: Graph, position: int, layer: Dense, cuts: Mapping[int, Cut], constants: Constants) -> Graph:
    outputs, inputs = cuts[layer.output], cuts[layer.input]
    removed = replace(constants, mask=constants.mask & ~inputs.kept)
    # All windows see the same: what differs between them has been kept.
    bias = layer.bias + layer.parts(removed)[0].sum(1)
    held = layer.columns(inputs.held)
    weights = _weights(graph, graph.operators[position])[outputs.held][..., held]
    weights[..., ~layer.columns(inputs.kept)[held]] = layer.weight_zero_point
    weights[outputs.filled] = layer.weight_zero_point
    return _layer(graph, position, weights, outputs, bias)


def _layer(graph: Graph, position: int, weights: Array, outputs: Cut, bias: NDArray[np.int64]) -> Graph:
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
    values = np.where(outputs.kept, bias, 0)[outputs.held].astype(old_bias.dtype.numpy)
    scales = _cut_scales(old_bias.quantization, outputs)
    tensor = replace(old_bias, shape=values.shape, data=values, quantization=scales)
    return _with_constant(graph, position, layers.BIAS_POSITION, tensor)


def _cut_scales(quantization: Quantization | None, outputs: Cut) -> Quantization | None:
    """The scales of the channels that are held; filled ones get a kept one's and so need no shift of their own."""
    if quantization is None or len(quantization.scales) != len(outputs.held):
        return quantization
    first = int(np.flatnonzero(outputs.kept)[0])
    chosen = [i if outputs.kept[i] else first for i in np.flatnonzero(outputs.held).tolist()]
    return replace(
        quantization,
        scales=tuple(quantization.scales[i] for i in chosen),
        zero_points=tuple(quantization.zero_points[i] for i in chosen),
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
