# SPDX-License-Identifier: Apache-2.0
"""Small quantised networks whose weights leave channels constant or unread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.graph import DType, Graph, Operator, Quantization, Tensor
from compiler.ops.activation import Activation
from compiler.ops.arithmetic import ArithmeticAttributes
from compiler.ops.conv_2d import Conv2DAttributes
from compiler.ops.definition import OperatorView
from compiler.ops.fully_connected import FullyConnectedAttributes
from compiler.ops.geometry import AnyPadding, Padding, Slide
from compiler.ops.pooling import PoolAttributes
from compiler.ops.pooling import slide as pool_slide
from compiler.ops.reducing import ReduceAttributes

Array = NDArray[Any]
HUGE = 1 << 24
"""A bias that no sum of products of these networks outweighs."""


class Network:
    """Builds a graph operator by operator; each method returns the tensor that the operator computes."""

    def __init__(self, *shape: int, dtype: DType = DType.INT8, zero_point: int = 0) -> None:
        self.dtype = dtype
        self.tensors: dict[int, Tensor] = {}
        self.operators: list[Operator] = []
        self.input = self.tensor(shape, zero_point=zero_point)

    def tensor(self, shape: Sequence[int], scale: float = 0.05, zero_point: int = 0) -> int:
        zero_point = zero_point if self.dtype is DType.INT8 else 0
        return self._add(self.dtype, tuple(shape), Quantization((scale,), (zero_point,)))

    def _add(self, dtype: DType, shape: tuple[int, ...], quantization: Quantization | None, data: Any = None) -> int:
        index = len(self.tensors)
        array = None if data is None else np.asarray(data, dtype.numpy).reshape(shape)
        self.tensors[index] = Tensor(index, f"t{index}", dtype, shape, quantization, array)
        return index

    def _operator(self, op: str, inputs: Sequence[int], output: int, attributes: Any = None) -> int:
        self.operators.append(Operator(len(self.operators), op, tuple(inputs), (output,), attributes))
        return output

    def _weights(self, weights: Array, axis: int, scales: Sequence[float] | None, bias: Array | None) -> list[int]:
        count = weights.shape[axis]
        scales = [0.01] * count if scales is None else scales
        found = [self._add(DType.INT8, weights.shape, Quantization(tuple(scales), (0,) * len(scales), axis), weights)]
        if bias is not None:
            found.append(self._add(DType.INT32 if self.dtype is DType.INT8 else DType.INT64, (count,), None, bias))
        return found

    def convolution(
        self,
        source: int,
        weights: Array,
        bias: Array | None = None,
        *,
        padding: AnyPadding = Padding.SAME,
        strides: tuple[int, int] = (1, 1),
        activation: Activation = Activation.NONE,
        zero_point: int = 0,
        scales: Sequence[float] | None = None,
        depthwise: bool = False,
        scale: float = 0.05,
    ) -> int:
        """CONV_2D with weights [outputs, height, width, inputs], or DEPTHWISE_CONV_2D [1, height, width, outputs]."""
        axis = 3 if depthwise else 0
        batches, height, width, _ = self.tensors[source].shape
        size = Slide(weights.shape[1], weights.shape[2], *strides, padding).output_shape(height, width)
        output = self.tensor((batches, *size, weights.shape[axis]), scale, zero_point)
        operands = [source, *self._weights(weights, axis, scales, bias)]
        attributes = Conv2DAttributes(padding, *strides, activation=activation)
        return self._operator("DEPTHWISE_CONV_2D" if depthwise else "CONV_2D", operands, output, attributes)

    def fully_connected(self, source: int, weights: Array, bias: Array, scales: Sequence[float] | None = None) -> int:
        rows = self.tensors[source].elements // weights.shape[1]
        output = self.tensor((rows, len(weights)), 0.1, 3)
        return self._operator(
            "FULLY_CONNECTED", [source, *self._weights(weights, 0, scales, bias)], output, FullyConnectedAttributes()
        )

    def pool(self, op: str, source: int, size: int, padding: Padding) -> int:
        attributes = PoolAttributes(padding, size, size, size, size)
        batches, height, width, channels = self.tensors[source].shape
        probe = Operator(0, op, (source,), (source,), attributes)
        shape = pool_slide(OperatorView(Graph("", self.tensors, (), (), ()), probe)).output_shape(height, width)
        old = self.tensors[source].quant
        return self._operator(
            op, [source], self.tensor((batches, *shape, channels), old.scale, old.zero_point), attributes
        )

    def add(self, first: int, second: int, op: str = "ADD", activation: Activation = Activation.NONE) -> int:
        output = self.tensor(self.tensors[first].shape, 0.09, -7)
        return self._operator(op, [first, second], output, ArithmeticAttributes(activation))

    def unary(self, op: str, source: int, scale: float = 0.05, zero_point: int = 0) -> int:
        return self._operator(op, [source], self.tensor(self.tensors[source].shape, scale, zero_point))

    def mean(self, source: int) -> int:
        batches, _, _, channels = self.tensors[source].shape
        axes = self._add(DType.INT32, (2,), None, [1, 2])
        return self._operator("MEAN", [source, axes], self.tensor((batches, channels), 0.04, 5), ReduceAttributes())

    def reshape(self, source: int, *shape: int) -> int:
        sizes = self._add(DType.INT32, (len(shape),), None, list(shape))
        old = self.tensors[source].quant
        return self._operator("RESHAPE", [source, sizes], self.tensor(shape, old.scale, old.zero_point))

    def graph(self, *outputs: int) -> Graph:
        return Graph("test", dict(self.tensors), tuple(self.operators), (self.input,), outputs)


def extreme_inputs(graph: Graph, seed: int, rows: int = 6) -> list[list[Array]]:
    """Random rows, rows of nothing but extremes, and rows of the lowest, the highest and the zero point alone."""
    rng = np.random.default_rng(seed)
    (tensor,) = (graph.tensor(i) for i in graph.inputs)
    limits = np.iinfo(tensor.dtype.numpy)
    found = [rng.integers(limits.min, limits.max + 1, tensor.shape) for _ in range(rows)]
    found += [np.where(rng.random(tensor.shape) < 0.5, limits.min, limits.max) for _ in range(rows)]
    found += [np.full(tensor.shape, value) for value in (limits.min, limits.max, tensor.zero_point)]
    return [[x.astype(tensor.dtype.numpy)] for x in found]
