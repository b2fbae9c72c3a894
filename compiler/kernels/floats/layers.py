# SPDX-License-Identifier: Apache-2.0
"""Lowering of float layers to the float window kernel."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from compiler.kernels.floats.functions import LARGEST
from compiler.kernels.floats.window import FloatWindow
from compiler.kernels.kernel import INPUT, Lowered
from compiler.kernels.portable.window_lowering import (
    Blocking,
    WindowLayer,
    conv_weights,
    depthwise_weights,
    flat,
    rows_of,
    window_calls,
)
from compiler.kernels.problems import FloatLayer, Window

BLOCKING = Blocking(channels=4, pixels=4, channels_alone=8, unroll=2)
"""Sixteen sums with four weights and four inputs fit 32 float registers."""


def conv_2d(layer: FloatLayer) -> Lowered:
    """A float convolution: weights [output_channels, kernel_height, kernel_width, input_channels / groups]."""
    return _lowered(layer, flat(layer.window), conv_weights(layer.window, layer.weights), lanes=False)


def depthwise_conv_2d(layer: FloatLayer) -> Lowered:
    """A float depthwise convolution: weights [kernel_height, kernel_width, output_channels]."""
    return _lowered(layer, layer.window, *depthwise_weights(layer.window, layer.weights))


def fully_connected(layer: FloatLayer) -> Lowered:
    """A float fully connected layer: weights [outputs, depth]; the window's output pixels are the batches."""
    outputs, depth = layer.weights.shape
    window = rows_of(layer.window.output_height * layer.window.output_width, depth, outputs)
    return _lowered(layer, window, layer.weights.reshape(1, outputs, 1, 1, depth), lanes=False)


def _lowered(layer: FloatLayer, window: Window, weights: NDArray[np.float32], lanes: bool) -> Lowered:
    low, high = max(layer.minimum, -LARGEST), min(layer.maximum, LARGEST)
    kernel = partial(FloatWindow, lanes=lanes, minimum=low, maximum=high)

    def record(channels: NDArray[np.int64]) -> bytes:
        return layer.bias[channels].astype("<f4").tobytes()

    walked = WindowLayer(window, weights.astype(np.float32), lanes, INPUT, kernel, record, BLOCKING)
    return Lowered(window_calls(walked), macs=layer.macs)
