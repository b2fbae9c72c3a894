# SPDX-License-Identifier: Apache-2.0
"""The layers by which kernels are compared on every core, with seeded weights, and what CMSIS-NN takes for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compiler.kernels.problems import Conv2D, DepthwiseConv2D, FullyConnected, Requantization, Window
from compiler.numerics import quantize_multiplier

Layer = Conv2D | DepthwiseConv2D | FullyConnected


@dataclass(frozen=True)
class Shape:
    """A convolution's shape; `pad` is top, bottom, left, right."""

    height: int
    width: int
    channels: int
    outputs: int
    kernel: tuple[int, int] = (1, 1)
    stride: int = 1
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def window(self) -> Window:
        (kernel_height, kernel_width), (top, bottom, left, right) = self.kernel, self.pad
        return Window(
            self.height,
            self.width,
            self.channels,
            (self.height + top + bottom - kernel_height) // self.stride + 1,
            (self.width + left + right - kernel_width) // self.stride + 1,
            self.outputs,
            kernel_height,
            kernel_width,
            self.stride,
            self.stride,
            top,
            left,
        )


SAME_3X3 = (1, 1, 1, 1)


def layers() -> dict[str, Layer]:
    """Name -> layer, in the order of the tables in docs."""
    return {
        "conv 3x3 32x32x16->16": conv(Shape(32, 32, 16, 16, (3, 3), 1, SAME_3X3), 1),
        "conv 3x3 16x16x32->32": conv(Shape(16, 16, 32, 32, (3, 3), 1, SAME_3X3), 2),
        "conv 3x3 8x8x64->64": conv(Shape(8, 8, 64, 64, (3, 3), 1, SAME_3X3), 3),
        "conv 3x3 s2 32x32x16->32": conv(Shape(32, 32, 16, 32, (3, 3), 2, (0, 1, 0, 1)), 4),
        "conv 3x3 32x32x3->16": conv(Shape(32, 32, 3, 16, (3, 3), 1, SAME_3X3), 5, -5),
        "conv 3x3 s2 96x96x3->8": conv(Shape(96, 96, 3, 8, (3, 3), 2, (0, 1, 0, 1)), 6, -1),
        "conv 10x4 s2 49x10x1->64": conv(Shape(49, 10, 1, 64, (10, 4), 2, (4, 5, 1, 1)), 7, 83),
        "1x1 48x48x8->16": conv(Shape(48, 48, 8, 16), 8),
        "1x1 24x24x16->32": conv(Shape(24, 24, 16, 32), 9),
        "1x1 24x24x32->64": conv(Shape(24, 24, 32, 64), 10),
        "1x1 12x12x64->64": conv(Shape(12, 12, 64, 64), 11),
        "1x1 6x6x128->128": conv(Shape(6, 6, 128, 128), 12),
        "depthwise 3x3 48x48x8": depthwise(Shape(48, 48, 8, 8, (3, 3), 1, SAME_3X3), 13),
        "depthwise 3x3 24x24x32": depthwise(Shape(24, 24, 32, 32, (3, 3), 1, SAME_3X3), 14),
        "depthwise 3x3 s2 24x24x32": depthwise(Shape(24, 24, 32, 32, (3, 3), 2, (0, 1, 0, 1)), 15),
        "depthwise 3x3 6x6x128": depthwise(Shape(6, 6, 128, 128, (3, 3), 1, SAME_3X3), 16),
        "depthwise 3x3 25x5x64": depthwise(Shape(25, 5, 64, 64, (3, 3), 1, SAME_3X3), 17),
        "fully connected 640->128": fully_connected(640, 128, 18),
        "fully connected 128->128": fully_connected(128, 128, 19),
    }


CMSIS_NN: dict[str, dict[str, float]] = {
    "cortex-m4": {
        "conv 3x3 32x32x16->16": 2.32,
        "conv 3x3 16x16x32->32": 1.92,
        "conv 3x3 8x8x64->64": 1.76,
        "1x1 24x24x32->64": 2.64,
        "1x1 48x48x8->16": 6.66,
        "depthwise 3x3 24x24x32": 8.04,
        "conv 10x4 s2 49x10x1->64": 3.46,
        "fully connected 640->128": 1.95,
    },
    "cortex-m55": {
        "conv 3x3 32x32x16->16": 0.388,
        "conv 3x3 16x16x32->32": 0.253,
        "1x1 24x24x32->64": 0.615,
        "1x1 48x48x8->16": 2.18,
        "depthwise 3x3 24x24x32": 2.69,
        "conv 10x4 s2 49x10x1->64": 0.90,
        "fully connected 640->128": 0.49,
    },
    "rv32imac": {
        "conv 3x3 32x32x16->16": 5.13,
        "conv 3x3 16x16x32->32": 4.64,
        "conv 3x3 8x8x64->64": 4.43,
        "1x1 24x24x32->64": 5.29,
        "1x1 48x48x8->16": 8.38,
        "depthwise 3x3 24x24x32": 16.9,
        "conv 10x4 s2 49x10x1->64": 5.73,
        "fully connected 640->128": 5.43,
    },
    "cortex-m0": {
        "conv 3x3 32x32x16->16": 7.56,
        "conv 3x3 16x16x32->32": 6.70,
        "1x1 24x24x32->64": 9.06,
        "depthwise 3x3 24x24x32": 38.5,
        "conv 10x4 s2 49x10x1->64": 9.43,
        "fully connected 640->128": 6.19,
    },
}
"""Instructions per multiply-accumulate of CMSIS-NN 99f736a, GCC 12.2 -O3 (plain C where the core has no DSP)."""


def conv(shape: Shape, seed: int, input_zero_point: int = -128) -> Conv2D:
    """A convolution with seeded weights and a fused ReLU."""
    rng = np.random.default_rng(seed)
    weights = _weights(rng, (shape.outputs, *shape.kernel, shape.channels))
    bias, requantization = _output(rng, weights.reshape(shape.outputs, -1))
    return Conv2D(shape.window, weights, bias, input_zero_point, requantization)


def depthwise(shape: Shape, seed: int) -> DepthwiseConv2D:
    """A depthwise convolution with seeded weights and a fused ReLU."""
    rng = np.random.default_rng(seed)
    weights = _weights(rng, (*shape.kernel, shape.outputs))
    bias, requantization = _output(rng, weights.reshape(-1, shape.outputs).T)
    return DepthwiseConv2D(shape.window, weights, bias, -128, requantization)


def fully_connected(depth: int, outputs: int, seed: int) -> FullyConnected:
    """A fully connected layer with seeded weights, one scale and a fused ReLU."""
    rng = np.random.default_rng(seed)
    weights = _weights(rng, (outputs, depth))
    bias, r = _output(rng, weights)
    same = Requantization(
        np.full_like(r.multipliers, r.multipliers[0]), np.full_like(r.shifts, r.shifts[0]), -128, -128, 127
    )
    return FullyConnected(1, weights, bias, -128, 0, same)


def _weights(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int8]:
    values = rng.normal(size=shape)
    weights: NDArray[np.int8] = np.clip(np.round(values / np.abs(values).max() * 127), -127, 127).astype(np.int8)
    return weights


def _output(rng: np.random.Generator, weights: NDArray[np.int8]) -> tuple[NDArray[np.int64], Requantization]:
    """A bias and scales for weights [outputs, taps] that put a normal accumulator inside the output's range."""
    spread = np.sqrt((weights.astype(np.float64) ** 2).sum(axis=1)) * 70 + 1
    bias = np.round(rng.normal(size=len(spread)) * spread * 0.3).astype(np.int64)
    pairs = [quantize_multiplier(float(60.0 / s * rng.uniform(0.8, 1.2))) for s in spread]
    multipliers, shifts = (np.array(v, np.int64) for v in zip(*pairs, strict=True))
    return bias, Requantization(multipliers, shifts, -128, -128, 127)
