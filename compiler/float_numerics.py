# SPDX-License-Identifier: Apache-2.0
"""The reference's float arithmetic in NumPy: every sum in the reference's order, rounded to float32 at each step.

Source: TensorFlow Lite, kernels/internal/reference/{conv,depthwiseconv_float,fully_connected}.h.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from compiler.kernels.problems import FloatLayer
from compiler.numerics import windows

FloatArray = NDArray[np.float32]
LARGEST = float(np.finfo(np.float32).max)


def clamp(values: FloatArray, minimum: float, maximum: float) -> FloatArray:
    """min(max(x, minimum), maximum); NaN passes, infinities become the largest finite value where unbounded."""
    low, high = np.float32(max(minimum, -LARGEST)), np.float32(min(maximum, LARGEST))
    raised = np.where(values < low, low, values)
    return np.where(raised > high, high, raised).astype(np.float32)


def conv_2d(layer: FloatLayer, x: FloatArray) -> FloatArray:
    """x [H, W, C] -> [output_height, output_width, output_channels]; weights may be grouped."""
    weights = layer.weights
    outputs, height, width, depth = weights.shape
    patches = windows(x, layer.window, 0.0, np.float32)
    group = np.arange(outputs) // (outputs // (layer.window.input_channels // depth)) * depth
    total = np.zeros((*patches.shape[:2], outputs), np.float32)
    with np.errstate(all="ignore"):
        for i, j, c in np.ndindex(height, width, depth):
            total += patches[:, :, i, j, group + c] * weights[:, i, j, c]
        return clamp(total + layer.bias, layer.minimum, layer.maximum)


def depthwise_conv_2d(layer: FloatLayer, x: FloatArray) -> FloatArray:
    """x [H, W, C] -> [output_height, output_width, C * multiplier]."""
    multiplier = layer.window.output_channels // layer.window.input_channels
    patches = np.repeat(windows(x, layer.window, 0.0, np.float32), multiplier, axis=-1)
    total = np.zeros((*patches.shape[:2], patches.shape[-1]), np.float32)
    with np.errstate(all="ignore"):
        for i, j in np.ndindex(*layer.weights.shape[:2]):
            total += patches[:, :, i, j] * layer.weights[i, j]
        return clamp(total + layer.bias, layer.minimum, layer.maximum)


def fully_connected(layer: FloatLayer, x: FloatArray) -> FloatArray:
    """x [batches, depth] -> [batches, outputs]."""
    total = np.zeros((len(x), len(layer.weights)), np.float32)
    with np.errstate(all="ignore"):
        for d in range(x.shape[1]):
            total += x[:, d : d + 1] * layer.weights[:, d]
        return clamp(total + layer.bias, layer.minimum, layer.maximum)
