# SPDX-License-Identifier: Apache-2.0
"""Sliding windows: padding schemes and the geometry that follows from them.

Source: TensorFlow Lite, kernels/padding.h (ComputeOutSize, ComputePaddingWithOffset).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from compiler.graph import Tensor
from compiler.kernels.problems import Window


class Padding(Enum):
    """TFLite's padding schemes, by value."""

    SAME = 0
    VALID = 1


@dataclass(frozen=True)
class ExplicitPadding:
    """Padding that a fused PAD gave: cells on each side."""

    top: int
    bottom: int
    left: int
    right: int


AnyPadding = Padding | ExplicitPadding


def output_size(padding: Padding, size: int, kernel: int, stride: int, dilation: int = 1) -> int:
    """Windows along one axis of `size` cells."""
    reach = (kernel - 1) * dilation + 1
    if padding is Padding.SAME:
        return -(-size // stride)
    return max(0, -(-(size - reach + 1) // stride))


def leading_padding(size: int, output: int, kernel: int, stride: int, dilation: int = 1) -> int:
    """The cells of padding before the first: the smaller half of the total when it is odd."""
    reach = (kernel - 1) * dilation + 1
    return max(0, (output - 1) * stride + reach - size) // 2


@dataclass(frozen=True)
class Slide:
    """How a window moves: kernel size, strides, dilations and padding."""

    kernel_height: int
    kernel_width: int
    stride_height: int
    stride_width: int
    padding: AnyPadding
    dilation_height: int = 1
    dilation_width: int = 1

    def output_shape(self, height: int, width: int) -> tuple[int, int]:
        """(output height, output width) of an input of height x width cells."""
        if isinstance(self.padding, ExplicitPadding):
            padding = Padding.VALID
            height += self.padding.top + self.padding.bottom
            width += self.padding.left + self.padding.right
        else:
            padding = self.padding
        return (
            output_size(padding, height, self.kernel_height, self.stride_height, self.dilation_height),
            output_size(padding, width, self.kernel_width, self.stride_width, self.dilation_width),
        )

    def window(self, source: Tensor, output: Tensor) -> Window:
        """The geometry of one image: `source` and `output` are NHWC."""
        _, height, width, channels = source.shape
        _, output_height, output_width, output_channels = output.shape
        if isinstance(self.padding, ExplicitPadding):
            top, left = self.padding.top, self.padding.left
        elif self.padding is Padding.SAME:
            top = leading_padding(height, output_height, self.kernel_height, self.stride_height, self.dilation_height)
            left = leading_padding(width, output_width, self.kernel_width, self.stride_width, self.dilation_width)
        else:
            top = left = 0
        return Window(
            input_height=height,
            input_width=width,
            input_channels=channels,
            output_height=output_height,
            output_width=output_width,
            output_channels=output_channels,
            kernel_height=self.kernel_height,
            kernel_width=self.kernel_width,
            stride_height=self.stride_height,
            stride_width=self.stride_width,
            pad_top=top,
            pad_left=left,
            dilation_height=self.dilation_height,
            dilation_width=self.dilation_width,
        )
