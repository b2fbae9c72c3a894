# SPDX-License-Identifier: Apache-2.0
"""The values that each element of a tensor can take, by interval arithmetic over the known weights.

Every operator here is monotone in each of its inputs: accumulators are bounded by the signs of the weights, and a
requantisation by a positive multiplier keeps the order unless 32 bits (int16x8: 48) overflow, which is checked. So the
bounds of the inputs give bounds of the outputs that hold for every input of the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.graph import DType, Graph, Operator, Tensor
from compiler.kernels.problems import Conv2D, DepthwiseConv2D, FullyConnected
from compiler.numerics import Int64Array, requantize
from compiler.ops import conv_2d, depthwise_conv_2d, fully_connected, operators
from compiler.ops.activation import INTEGER_RANGE
from compiler.ops.definition import OperatorView

ANALYSED = (DType.INT8, DType.INT16)
RISING = (
    *("ADD", "AVERAGE_POOL_2D", "EXPAND_DIMS", "MAX_POOL_2D", "MEAN", "PAD", "QUANTIZE", "RELU", "RELU6"),
    *("RELU_N1_TO_1", "RESHAPE", "SQUEEZE"),
)
"""Operators whose outputs never fall when an input rises: their references give the bounds."""
WIDE_LIMIT = 1 << 47
"""TFLite asserts that 64-bit accumulators stay below this before they are rescaled."""


@dataclass(frozen=True, eq=False)
class Constants:
    """Which channels (indices of the last axis) of a tensor are constant [C], and their values [C]."""

    mask: NDArray[np.bool_]
    values: Int64Array


@dataclass(frozen=True, eq=False)
class Interval:
    """The least and greatest value of each element, both included: int64 arrays of the tensor's shape."""

    low: Int64Array
    high: Int64Array

    def constants(self) -> Constants:
        """The channels that hold one value at every position, whatever the model's input is."""
        low, high = (x.reshape(-1, x.shape[-1]) for x in (self.low, self.high))
        return Constants(np.asarray((low == low[0]).all(0) & (high == low).all(0)), low[0])


def intervals(graph: Graph) -> Mapping[int, Interval]:
    """The intervals of all INT8 and INT16 tensors, but constants, of a graph whose operators are supported."""
    known: dict[int, Interval] = {}
    for index, tensor in graph.tensors.items():
        if index in graph.inputs or tensor.is_variable:
            known[index] = unbounded(tensor)
    for operator in graph.operators:
        for index in operator.outputs:
            known[index] = unbounded(graph.tensor(index))
        found = _result(graph, operator, known)
        if found is not None:
            known[operator.outputs[0]] = found
    return {index: interval for index, interval in known.items() if graph.tensor(index).dtype in ANALYSED}


def unbounded(tensor: Tensor) -> Interval:
    """Every value of the tensor's type. Types that are not analysed get zeros, which nobody reads."""
    lowest, highest = INTEGER_RANGE[tensor.dtype] if tensor.dtype in ANALYSED else (0, 0)
    # Zero strides: a large tensor of which nothing is known takes no memory.
    return Interval(*(np.broadcast_to(np.int64(bound), tensor.shape) for bound in (lowest, highest)))


def _result(graph: Graph, operator: Operator, known: Mapping[int, Interval]) -> Interval | None:
    """The interval of the only output; None where nothing is known of it."""
    view = OperatorView(graph, operator)
    if len(operator.outputs) != 1 or view.output().dtype not in ANALYSED:
        return None
    first = known.get(operator.inputs[0]) if operator.inputs else None
    if first is None or view.input().dtype not in ANALYSED:
        return None
    if operator.op in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        module = conv_2d if operator.op == "CONV_2D" else depthwise_conv_2d
        layer = module.problem(view)
        images = [_convolution(layer, low, high) for low, high in zip(first.low, first.high, strict=True)]
        return Interval(np.stack([i.low for i in images]), np.stack([i.high for i in images]))
    if operator.op == "FULLY_CONNECTED":
        found = _fully_connected(fully_connected.problem(view), first)
        return Interval(*(x.reshape(view.output().shape) for x in (found.low, found.high)))
    if operator.op in RISING:
        return _by_reference(view, known)
    if operator.op == "SUB":
        second = known.get(operator.inputs[1])
        if operator.inputs[0] == operator.inputs[1]:
            return None
        swapped = {operator.inputs[1]: Interval(second.high, second.low)} if second else {}
        return _by_reference(view, {**known, **swapped})
    return None


def _by_reference(view: OperatorView, known: Mapping[int, Interval]) -> Interval:
    """The reference at the lowest and at the highest inputs; operands that are not analysed are constants."""
    bounds = []
    for end in ("low", "high"):
        operands = [
            getattr(known[t.index], end).astype(t.dtype.numpy) if t.index in known else t.data
            for t in view.inputs
            if t is not None
        ]
        (result,) = operators()[view.operator.op].reference(view, operands)
        bounds.append(result.astype(np.int64))
    return Interval(*bounds)


def _convolution(layer: Conv2D | DepthwiseConv2D, low: Int64Array, high: Int64Array) -> Interval:
    """The interval of one image's output from that of its input [H, W, C]. Output rows whose windows see the same
    intervals are computed once, and so are columns: what differs is mostly the border."""
    w = layer.window
    rows, row_of = _distinct_windows(
        _runs(low, high, 0), w.output_height, w.kernel_height, w.stride_height, w.pad_top, w.dilation_height
    )
    columns, column_of = _distinct_windows(
        _runs(low, high, 1), w.output_width, w.kernel_width, w.stride_width, w.pad_left, w.dilation_width
    )
    inside = ((rows >= 0) & (rows < w.input_height))[:, None, :, None, None]
    inside = inside & ((columns >= 0) & (columns < w.input_width))[None, :, None, :, None]
    cells = (
        rows.clip(0, w.input_height - 1)[:, None, :, None],
        columns.clip(0, w.input_width - 1)[None, :, None, :],
    )
    # Sums below 2**53 are exact in double, and BLAS is many times faster than integer products.
    patches = [np.where(inside, x[cells] - layer.input_zero_point, 0).astype(np.float64) for x in (low, high)]
    weights = layer.weights.astype(np.float64)
    signed = (np.maximum(weights, 0), np.minimum(weights, 0))

    def sums(x: NDArray[Any], by: NDArray[Any]) -> NDArray[Any]:
        if isinstance(layer, DepthwiseConv2D):
            return np.asarray(np.einsum("yxijc,ijc->yxc", np.repeat(x, layer.multiplier, axis=-1), by))
        return np.asarray(x.reshape(*x.shape[:2], -1) @ by.reshape(len(by), -1).T)

    found = _requantized(
        layer,
        sums(patches[0], signed[0]) + sums(patches[1], signed[1]),
        sums(patches[1], signed[0]) + sums(patches[0], signed[1]),
    )
    return Interval(*(x[row_of[:, None], column_of] for x in (found.low, found.high)))


def _fully_connected(layer: FullyConnected, x: Interval) -> Interval:
    """The interval [batches, outputs]."""
    weights = layer.weights.astype(np.float64) - layer.filter_zero_point
    low, high = (
        (bound.reshape(layer.batches, -1) - layer.input_zero_point).astype(np.float64) for bound in (x.low, x.high)
    )
    rising, falling = np.maximum(weights, 0).T, np.minimum(weights, 0).T
    return _requantized(layer, low @ rising + high @ falling, high @ rising + low @ falling)


def _requantized(layer: Conv2D | DepthwiseConv2D | FullyConnected, low: NDArray[Any], high: NDArray[Any]) -> Interval:
    """The outputs from bounds of the sums of products (channels last, exact doubles), bias not yet added."""
    r = layer.requantization
    bounds = [np.rint(sums).astype(np.int64) + layer.bias for sums in (low, high)]
    largest = np.maximum(np.abs(bounds[0]), np.abs(bounds[1])).astype(np.float64)
    limit = WIDE_LIMIT if layer.wide else (1 << 31) / 2.0 ** np.maximum(r.shifts, 0)
    safe = largest < limit
    outputs = [requantize(np.where(safe, bound, 0), r, layer.wide) for bound in bounds]
    return Interval(np.where(safe, outputs[0], r.minimum), np.where(safe, outputs[1], r.maximum))


def _runs(low: Int64Array, high: Int64Array, axis: int) -> Int64Array:
    """Numbers the positions along an axis so that neighbours with the same intervals have the same number."""
    others = tuple(a for a in range(low.ndim) if a != axis)
    changes = [(np.diff(x, axis=axis) != 0).any(others) for x in (low, high)]
    return np.concatenate(([0], np.cumsum(changes[0] | changes[1]))).astype(np.int64)


def _distinct_windows(
    runs: Int64Array, outputs: int, kernel: int, stride: int, pad: int, dilation: int
) -> tuple[Int64Array, Int64Array]:
    """(cells [distinct, kernel] of the windows along one axis that differ, the number of each output's [outputs])."""
    cells = np.arange(outputs)[:, None] * stride - pad + np.arange(kernel) * dilation
    seen = np.where((cells >= 0) & (cells < len(runs)), runs[cells.clip(0, len(runs) - 1)], -1)
    _, first, inverse = np.unique(seen, axis=0, return_index=True, return_inverse=True)
    return cells[first], inverse.reshape(-1)
