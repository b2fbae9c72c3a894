# SPDX-License-Identifier: Apache-2.0
"""Seeded layers for the Helium kernels, and inputs that drive accumulators and ties to their extremes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler import numerics
from compiler.isa.mve import Mve
from compiler.kernels.problems import Conv2D, DepthwiseConv2D, Requantization, Window

Array = NDArray[Any]
CORE = "cortex-m55"
ISA = Mve()


def requantization(rng: np.random.Generator, scales: Array, kind: str) -> Requantization:
    """Multipliers that spread accumulators of standard deviation `scales` over the output range."""
    pairs = [numerics.quantize_multiplier(float(60.0 / s * rng.uniform(0.8, 1.2))) for s in scales]
    multipliers, shifts = (np.array(v, np.int64) for v in zip(*pairs, strict=True))
    if kind == "left":
        shifts[::2] = 3
        return Requantization(multipliers, shifts, 5, -128, 127)
    if kind == "zero":
        shifts[::2] = 0
        return Requantization(multipliers, shifts, -7, -128, 127)
    if kind == "ties":
        # Multiplier one half: every odd accumulator half way between two outputs.
        return Requantization(np.full_like(multipliers, 1 << 30), np.where(shifts > -2, -2, shifts), 3, -128, 127)
    ranges = {"relu": (-128, -128, 127), "relu6": (-10, -10, 77), "none": (4, -128, 127), "n1": (9, -31, 49)}
    return Requantization(multipliers, shifts, *ranges[kind])


def weights_of(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int8]:
    weights = np.clip(np.round(rng.normal(size=shape) * 45), -128, 127)
    weights.reshape(-1)[:2] = (-128, 127)
    return weights.astype(np.int8)


def conv(rng: np.random.Generator, shape: tuple[int, ...], kernel: tuple[int, int], **how: Any) -> Conv2D:
    """`shape` is input height, width, channels and output channels."""
    height, width, channels, outputs = shape
    window = _window(height, width, channels, outputs, kernel, **{k: v for k, v in how.items() if k != "kind"})
    weights = weights_of(rng, (outputs, *kernel, channels))
    spread = np.sqrt((weights.astype(np.float64) ** 2).reshape(outputs, -1).sum(axis=1)) * 70
    bias = np.round(rng.normal(size=outputs) * spread * 0.3).astype(np.int64)
    zero_point = int(rng.integers(-128, 128))
    return Conv2D(window, weights, bias, zero_point, requantization(rng, spread, how.get("kind", "relu")))


def _window(
    height: int,
    width: int,
    channels: int,
    outputs: int,
    kernel: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    pad: tuple[int, int, int, int] = (0, 0, 0, 0),
) -> Window:
    """`pad` is top, bottom, left, right."""
    reach_y, reach_x = ((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    output_height = (height + pad[0] + pad[1] - reach_y) // stride[0] + 1
    output_width = (width + pad[2] + pad[3] - reach_x) // stride[1] + 1
    return Window(
        height, width, channels, output_height, output_width, outputs, *kernel, *stride, pad[0], pad[2], *dilation
    )


def inputs_of(rng: np.random.Generator, shape: tuple[int, ...], pattern: Array | None = None) -> list[list[Array]]:
    """Random, all least, all greatest, extremes only, and (with the weights of one channel) sign-aligned inputs."""
    rows = [
        rng.integers(-128, 128, shape).astype(np.int8),
        np.full(shape, -128, np.int8),
        np.full(shape, 127, np.int8),
        np.where(rng.random(shape) < 0.5, -128, 127).astype(np.int8),
    ]
    if pattern is not None:
        tiled = np.resize(pattern, shape)
        rows += [np.where(tiled > 0, 127, -128).astype(np.int8), np.where(tiled > 0, -128, 127).astype(np.int8)]
    return [[row] for row in rows]


def depthwise(
    rng: np.random.Generator, shape: tuple[int, ...], kernel: tuple[int, int], multiplier: int = 1, **how: Any
) -> DepthwiseConv2D:
    """`shape` is input height, width and channels."""
    outputs = shape[2] * multiplier
    height, width, channels = shape
    window = _window(height, width, channels, outputs, kernel, **{k: v for k, v in how.items() if k != "kind"})
    weights = weights_of(rng, (*kernel, outputs))
    spread = np.sqrt((weights.astype(np.float64) ** 2).reshape(-1, outputs).sum(axis=0)) * 70 + 1
    bias = np.round(rng.normal(size=outputs) * spread * 0.3).astype(np.int64)
    zero_point = int(rng.integers(-128, 128))
    return DepthwiseConv2D(window, weights, bias, zero_point, requantization(rng, spread, how.get("kind", "relu")))
