# SPDX-License-Identifier: Apache-2.0
"""How operators connect the channels (indices of the last axis) of their tensors: which channels must stay or go
together, which inputs an output channel reads, and whether a constant channel may become part of a bias."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from compiler.graph import ABSENT, Graph, Operator, Tensor
from compiler.kernels.problems import Window
from compiler.ops import conv_2d, layers, pad, reducing
from compiler.ops.definition import OperatorView
from compiler.passes.intervals import ANALYSED, Constants

Mask = NDArray[np.bool_]
Masks = Mapping[int, Mask]
ELEMENTWISE = (
    *("ADD", "ELU", "HARD_SWISH", "LEAKY_RELU", "LOGISTIC", "QUANTIZE", "RELU", "RELU6", "RELU_0_TO_1"),
    *("RELU_N1_TO_1", "SUB", "TANH"),
)
POOLS = ("AVERAGE_POOL_2D", "MAX_POOL_2D")
SHAPERS = ("EXPAND_DIMS", "RESHAPE", "SQUEEZE")


class Link(Protocol):
    """One operator's connections."""

    def tied(self, keep: Masks) -> Masks:
        """What must be kept of each tensor because of what is kept of the others."""

    def read(self, needed: Mask) -> Masks:
        """Which channels of the inputs the `needed` channels of the output depend on."""

    def unfoldable(self, needed: Mask, removed: Constants) -> Mask | None:
        """The channels of the input, of those `removed` as constants, that must be kept, since their part in an output
        that is `needed` is no constant. None: none."""


@dataclass(frozen=True)
class Passing:
    """Channel by channel, or the same elements in another shape. `shapes` are the inputs' and the output's."""

    inputs: tuple[int, ...]
    output: int
    shapes: tuple[tuple[int, ...], ...]

    def _moved(self, mask: Mask, source: int, target: int) -> Mask:
        shape, channels = self.shapes[source], self.shapes[target][-1]
        return mask if shape[-1] == channels else spread(mask, shape, channels)

    def tied(self, keep: Masks) -> Masks:
        tensors = (*self.inputs, self.output)
        last = len(tensors) - 1
        common = np.logical_or.reduce([self._moved(keep[t], i, last) for i, t in enumerate(tensors)])
        return {t: self._moved(common, last, i) for i, t in enumerate(tensors)}

    def read(self, needed: Mask) -> Masks:
        last = len(self.inputs)
        return {t: self._moved(needed, last, i) for i, t in enumerate(self.inputs)}

    def unfoldable(self, needed: Mask, removed: Constants) -> Mask | None:
        return None


@dataclass(frozen=True, eq=False)
class Depthwise:
    """`read_outputs` [outputs]: which output channels have a weight that is not zero."""

    input: int
    output: int
    read_outputs: Mask
    multiplier: int

    def _groups(self, mask: Mask) -> Mask:
        return np.asarray(mask.reshape(-1, self.multiplier).any(1))

    def tied(self, keep: Masks) -> Masks:
        groups = keep[self.input] | self._groups(keep[self.output])
        return {self.input: groups, self.output: np.repeat(groups, self.multiplier)}

    def read(self, needed: Mask) -> Masks:
        return {self.input: self._groups(needed & self.read_outputs)}

    def unfoldable(self, needed: Mask, removed: Constants) -> Mask | None:
        return None


@dataclass(frozen=True, eq=False)
class Dense:
    """CONV_2D without groups or FULLY_CONNECTED: every output depends on every input.

    `weights` int8 [outputs, taps, depth]; `seen` [distinct windows, taps]: which taps are inside the input; `not_zero`
    [outputs, depth]: where any weight counts. `shape` is the input's: its last axis divides the depth.
    """

    input: int
    output: int
    shape: tuple[int, ...]
    zero_point: int
    weights: NDArray[np.int8]
    weight_zero_point: int
    bias: NDArray[np.int64]
    seen: Mask
    not_zero: Mask
    wide: bool

    @property
    def depth(self) -> int:
        return int(self.weights.shape[2])

    def columns(self, channels: NDArray[Any]) -> NDArray[Any]:
        """Values a channel of the input as values a column of the weights."""
        return np.tile(channels, self.depth // len(channels))

    def channels(self, columns: Mask) -> Mask:
        """The channels of which any column is set."""
        return np.asarray(columns.reshape(-1, self.shape[-1]).any(0))

    def tied(self, keep: Masks) -> Masks:
        return {}

    def read(self, needed: Mask) -> Masks:
        return {self.input: self.channels(np.asarray(self.not_zero[needed].any(0)))}

    def parts(self, constants: Constants) -> NDArray[np.int64]:
        """What the columns of constant channels add to the sums [distinct windows, outputs, columns]."""
        columns, values = self.columns(constants.mask), self.columns(constants.values)
        weights = self.weights[:, :, columns].astype(np.int64) - self.weight_zero_point
        return np.asarray(
            np.tensordot(self.seen.astype(np.int64), weights * (values[columns] - self.zero_point), axes=([1], [1]))
        )

    def unfoldable(self, needed: Mask, removed: Constants) -> Mask | None:
        columns = self.columns(removed.mask)
        if not columns.any():
            return None
        parts = self.parts(removed)[:, needed]
        limit = 1 << (47 if self.wide else 31)
        if (np.abs(parts).max(0).sum(1) + np.abs(self.bias[needed]) >= limit).any():
            return np.asarray(removed.mask & (removed.values != self.zero_point))
        found = np.zeros(self.depth, np.bool_)
        found[columns] = (parts != parts[:1]).any((0, 1))
        return self.channels(found)


def spread(mask: Mask, shape: tuple[int, ...], channels: int) -> Mask:
    """A mask of the last axis of `shape` as one of the last axis of another shape of the same elements: set where any
    element is."""
    return np.asarray(np.broadcast_to(mask, shape).reshape(-1, channels).any(0))


def link(graph: Graph, operator: Operator) -> Link | None:
    """The operator's connections; None where all channels of all its tensors have to stay."""
    view = OperatorView(graph, operator)
    if len(operator.outputs) != 1 or not operator.inputs or ABSENT in operator.inputs[:1]:
        return None
    source, output = view.input(), view.output()
    if source.is_constant or not (source.elements and source.shape and output.shape):
        return None
    if source.dtype not in ANALYSED or output.dtype not in ANALYSED:
        return None
    if operator.op == "CONV_2D":
        return _convolution(view)
    if operator.op == "DEPTHWISE_CONV_2D":
        used = (view.input(layers.FILTER_POSITION).constant != 0).any((0, 1, 2))
        return Depthwise(source.index, output.index, used, output.shape[3] // source.shape[3])
    if operator.op == "FULLY_CONNECTED":
        return _fully_connected(view)
    return _passing(view)


def _passing(view: OperatorView) -> Passing | None:
    op, source, output = view.operator.op, view.input(), view.output()
    inputs: tuple[Tensor, ...] = (source,)
    if op in ELEMENTWISE:
        inputs = tuple(t for t in view.inputs if t is not None)
        if any(t.shape != output.shape or t.is_constant or t.dtype not in ANALYSED for t in inputs):
            return None
    elif op == "PAD":
        if any(pad.paddings(view)[-1]):
            return None
    elif op in ("MEAN", "SUM"):
        if len(source.shape) - 1 in reducing.axes_of(view):
            return None
    elif op not in (*POOLS, *SHAPERS):
        return None
    return Passing(tuple(t.index for t in inputs), output.index, (*(t.shape for t in inputs), output.shape))


def _convolution(view: OperatorView) -> Dense | None:
    source, weights, output = view.input(), view.input(layers.FILTER_POSITION), view.output()
    outputs, height, width, depth = weights.shape
    if depth != source.shape[3]:
        return None
    window = conv_2d.slide(view).window(source, output)
    return _dense(view, weights.constant.reshape(outputs, height * width, depth), _seen(window))


def _fully_connected(view: OperatorView) -> Dense | None:
    source, weights, output = view.input(), view.input(layers.FILTER_POSITION), view.output()
    outputs, depth = weights.shape
    if depth % source.shape[-1] or output.shape[-1] != outputs:
        return None
    zero_point = weights.quant.zero_points[0] if len(weights.quant.zero_points) == 1 else 0
    return _dense(view, weights.constant[:, None], np.ones((1, 1), np.bool_), zero_point)


def _dense(view: OperatorView, weights: NDArray[np.int8], seen: Mask, zero_point: int = 0) -> Dense:
    source = view.input()
    return Dense(
        source.index,
        view.output().index,
        source.shape,
        source.zero_point,
        weights,
        zero_point,
        layers.bias_values(view, len(weights)),
        seen,
        (weights != zero_point).any(1),
        layers.is_wide(view),
    )


def _seen(w: Window) -> Mask:
    """Which taps of the window are inside the input [distinct windows, taps]."""

    def axis(size: int, outputs: int, kernel: int, stride: int, pad: int, dilation: int) -> Mask:
        cells = np.arange(outputs)[:, None] * stride - pad + np.arange(kernel) * dilation
        return np.unique((cells >= 0) & (cells < size), axis=0)

    rows = axis(w.input_height, w.output_height, w.kernel_height, w.stride_height, w.pad_top, w.dilation_height)
    columns = axis(w.input_width, w.output_width, w.kernel_width, w.stride_width, w.pad_left, w.dilation_width)
    seen = rows[:, None, :, None] & columns[None, :, None, :]
    return np.asarray(seen.reshape(-1, w.kernel_height * w.kernel_width))
