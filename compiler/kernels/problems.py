# SPDX-License-Identifier: Apache-2.0
"""Layers as kernels see them: geometry, integer weights and requantisation, freed of TFLite's encoding.

All arrays are NumPy; shapes and dtypes are stated. Zero points are not folded: each kernel family folds as it needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.kernels.kernel import Argument
from compiler.kernels.portable.linear import Linear


@dataclass(frozen=True, eq=False)
class Requantization:
    """acc -> clamp(MultiplyByQuantizedMultiplier(acc, multiplier, shift) + zero_point, minimum, maximum).

    `multipliers` (int32 range, Q31) and `shifts` (left if positive) are int64 arrays, one entry an output channel,
    as TFLite's QuantizeMultiplier gives them.
    """

    multipliers: NDArray[np.int64]
    shifts: NDArray[np.int64]
    zero_point: int
    minimum: int
    maximum: int


@dataclass(frozen=True)
class Window:
    """Geometry of a sliding window, NHWC, one image. `pad_top`/`pad_left` are the leading paddings; what the last
    windows reach beyond the input is padding too."""

    input_height: int
    input_width: int
    input_channels: int
    output_height: int
    output_width: int
    output_channels: int
    kernel_height: int
    kernel_width: int
    stride_height: int
    stride_width: int
    pad_top: int
    pad_left: int
    dilation_height: int = 1
    dilation_width: int = 1

    @property
    def pad_bottom(self) -> int:
        reach = (self.output_height - 1) * self.stride_height + (self.kernel_height - 1) * self.dilation_height + 1
        return max(0, reach - self.pad_top - self.input_height)

    @property
    def pad_right(self) -> int:
        reach = (self.output_width - 1) * self.stride_width + (self.kernel_width - 1) * self.dilation_width + 1
        return max(0, reach - self.pad_left - self.input_width)

    @property
    def is_pointwise(self) -> bool:
        """A 1x1 convolution with stride 1: a matrix product over all pixels."""
        return self.kernel_height == self.kernel_width == self.stride_height == self.stride_width == 1 and not (
            self.pad_top or self.pad_left or self.pad_bottom or self.pad_right
        )


@dataclass(frozen=True, eq=False)
class Conv2D:
    """int8 or int16 activations, int8 weights [output_channels, kernel_height, kernel_width, input_channels],
    bias int64 values [output_channels] (zeros where the model has none).

    `activation_bits` is 8 or 16; `wide` asks for 64-bit accumulation (int16x8 whose bias is not int32).
    """

    window: Window
    weights: NDArray[np.int8]
    bias: NDArray[np.int64]
    input_zero_point: int
    requantization: Requantization
    activation_bits: int = 8
    wide: bool = False

    @property
    def macs(self) -> int:
        w = self.window
        return w.output_height * w.output_width * int(np.prod(self.weights.shape))


@dataclass(frozen=True, eq=False)
class DepthwiseConv2D:
    """As Conv2D, with weights [kernel_height, kernel_width, output_channels]; output channel o reads input channel
    o // multiplier."""

    window: Window
    weights: NDArray[np.int8]
    bias: NDArray[np.int64]
    input_zero_point: int
    requantization: Requantization
    activation_bits: int = 8
    wide: bool = False

    @property
    def multiplier(self) -> int:
        return self.window.output_channels // self.window.input_channels

    @property
    def macs(self) -> int:
        w = self.window
        return w.output_height * w.output_width * int(np.prod(self.weights.shape))


@dataclass(frozen=True, eq=False)
class FullyConnected:
    """`batches` rows of `depth` activations times weights [outputs, depth] (int8), bias int64 values [outputs].

    `filter_zero_point` is non-zero only for legacy per-tensor models.
    """

    batches: int
    weights: NDArray[np.int8]
    bias: NDArray[np.int64]
    input_zero_point: int
    filter_zero_point: int
    requantization: Requantization
    activation_bits: int = 8
    wide: bool = False

    @property
    def macs(self) -> int:
        return self.batches * int(np.prod(self.weights.shape))


@dataclass(frozen=True)
class IntegerSum:
    """first + second (or first - second) of `count` int8 elements without broadcasting, in the reference's steps:
    `zero_points` and (multiplier, shift) of the first, the second input and the sum, shifts not positive, inputs
    shifted left by 20 before. `linear` is a form of the same function that was proven for all inputs, where found."""

    first: Argument
    second: Argument
    count: int
    subtract: bool
    zero_points: tuple[int, int, int]
    multipliers: tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
    linear: Linear | None
    minimum: int
    maximum: int


@dataclass(frozen=True, eq=False)
class FloatLayer:
    """A float convolution, depthwise convolution or fully connected layer: weights as in the integer problem of the
    same `window` kind, float32; clamp to [minimum, maximum] (infinite where there is no activation)."""

    window: Window
    weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    minimum: float
    maximum: float
    depthwise: bool = False

    @property
    def macs(self) -> int:
        w = self.window
        return w.output_height * w.output_width * int(np.prod(self.weights.shape))


@dataclass(frozen=True, eq=False)
class HybridLayer:
    """Float activations and int8 weights (shaped as in the integer problem of the same kind): the input is quantised
    at run time, the integer sums are scaled back to float.

    `scales` float32: one for all output channels, or one for each. `asymmetric` inputs have a zero point. With
    `channel_first` the sum is scaled by the channel's scale and then by the input's, else by their product.
    """

    window: Window
    weights: NDArray[np.int8]
    bias: NDArray[np.float32]
    scales: NDArray[np.float32]
    asymmetric: bool
    channel_first: bool
    minimum: float
    maximum: float

    @property
    def macs(self) -> int:
        w = self.window
        return w.output_height * w.output_width * int(np.prod(self.weights.shape))


AnyArray = NDArray[Any]
