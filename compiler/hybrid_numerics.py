# SPDX-License-Identifier: Apache-2.0
"""The reference's hybrid layers in NumPy: inputs quantised at run time, integer sums, float results.

Source: TensorFlow Lite, kernels/internal/reference/portable_tensor_utils.cc, reference/conv.h,
reference/integer_ops/depthwise_conv.h, kernels/{conv,fully_connected}.cc.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from compiler.float_numerics import FloatArray, clamp
from compiler.kernels.problems import HybridLayer
from compiler.numerics import windows

Quantized = tuple[NDArray[np.int64], np.float32]


def quantize_symmetric(x: FloatArray) -> Quantized:
    """(q, scale): x is about scale * q, q in -127..127."""
    limit = np.abs(x).max()
    if limit == 0:
        return np.zeros(x.shape, np.int64), np.float32(1)
    return np.clip(_round(x * (np.float32(127) / limit)), -127, 127), np.float32(limit / np.float32(127))


def quantize_asymmetric(x: FloatArray) -> Quantized:
    """(q - zero point, scale) with q in -128..127 over the range of x and 0."""
    zero = np.float32(0)
    low, high = min(zero, x.min()), max(zero, x.max())
    if low == high:
        return np.zeros(x.shape, np.int64), np.float32(1)
    # The range is rounded to float32 before it is divided.
    scale, low, high = float(high - low) / 255.0, float(low), float(high)
    from_low = 128 + abs(low / scale) < 127 + abs(high / scale)
    zero_point = -128 - low / scale if from_low else 127 - high / scale
    nudged = int(np.clip(_round(np.array(zero_point)), -128, 127))
    single = np.float32(scale)
    steps = np.float32(nudged) + x * (np.float32(1) / single)
    return np.clip(_round(steps), -128, 127) - nudged, single


def conv_2d(layer: HybridLayer, x: FloatArray) -> FloatArray:
    """x [H, W, C] -> [output_height, output_width, output_channels]; weights may be grouped."""
    q, scale = _quantized(layer, x)
    outputs, _, _, depth = layer.weights.shape
    patches = windows(q, layer.window, 0)
    group = np.arange(outputs) // (outputs // (layer.window.input_channels // depth)) * depth
    channels = group[:, None] + np.arange(depth)
    if depth == layer.window.input_channels:
        sums = np.einsum("yxijc,oijc->yxo", patches, layer.weights.astype(np.int64), optimize=True)
    else:
        sums = np.einsum("yxijoc,oijc->yxo", patches[..., channels], layer.weights.astype(np.int64), optimize=True)
    return _finish(layer, sums, scale)


def depthwise_conv_2d(layer: HybridLayer, x: FloatArray) -> FloatArray:
    """x [H, W, C] -> [output_height, output_width, C * multiplier]."""
    q, scale = _quantized(layer, x)
    multiplier = layer.window.output_channels // layer.window.input_channels
    patches = np.repeat(windows(q, layer.window, 0), multiplier, axis=-1)
    return _finish(layer, np.einsum("yxijc,ijc->yxc", patches, layer.weights.astype(np.int64), optimize=True), scale)


def fully_connected(layer: HybridLayer, x: FloatArray) -> FloatArray:
    """x [batches, depth] -> [batches, outputs]; each row is quantised by itself."""
    rows = []
    for row in x:
        q, scale = _quantized(layer, row)
        rows.append(_finish(layer, layer.weights.astype(np.int64) @ q, scale))
    return np.stack(rows)


def _quantized(layer: HybridLayer, x: FloatArray) -> Quantized:
    return quantize_asymmetric(x) if layer.asymmetric else quantize_symmetric(x)


def _finish(layer: HybridLayer, sums: NDArray[np.int64], scale: np.float32) -> FloatArray:
    values = sums.astype(np.float32)
    scaled = values * layer.scales * scale if layer.channel_first else values * (layer.scales * scale)
    return clamp((scaled + layer.bias).astype(np.float32), layer.minimum, layer.maximum)


def _round(x: NDArray[np.floating]) -> NDArray[np.int64]:
    return np.asarray(np.copysign(np.floor(np.abs(x.astype(np.float64)) + 0.5), x), np.int64)
