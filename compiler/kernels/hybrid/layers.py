# SPDX-License-Identifier: Apache-2.0
"""Lowering of hybrid layers: the input is quantised into scratch memory, then a window kernel walks over it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from compiler.isa import Isa
from compiler.kernels.floats.functions import LARGEST, float_bits
from compiler.kernels.hybrid.window import DATA_OFFSET, AsymmetricInput, HybridWindow, Scaling, SymmetricInput
from compiler.kernels.kernel import INPUT, SCRATCH, KernelCall, Lowered, Place, Role
from compiler.kernels.portable.window_lowering import (
    Blocking,
    WindowLayer,
    conv_weights,
    depthwise_weights,
    flat,
    rows_of,
    window_calls,
)
from compiler.kernels.problems import HybridLayer, Window

DATA = Place(Role.SCRATCH, 0, DATA_OFFSET)
BLOCKING = Blocking(channels=4, pixels=2, channels_alone=4, unroll=1)
"""Eight integer sums: the best of 2x1 to 4x4 over Cortex-M0, M4 and RV32IM. Unrolling makes M4 spill."""


def conv_2d(layer: HybridLayer, isa: Isa) -> Lowered:
    """A hybrid convolution of one image."""
    return _lowered(layer, isa, flat(layer.window), conv_weights(layer.window, layer.weights), lanes=False)


def depthwise_conv_2d(layer: HybridLayer, isa: Isa) -> Lowered:
    """A hybrid depthwise convolution of one image."""
    return _lowered(layer, isa, layer.window, *depthwise_weights(layer.window, layer.weights))


def fully_connected(layer: HybridLayer, isa: Isa) -> Lowered:
    """One row of a hybrid fully connected layer: each row is quantised by itself."""
    outputs, depth = layer.weights.shape
    return _lowered(layer, isa, rows_of(1, depth, outputs), layer.weights.reshape(1, outputs, 1, 1, depth), lanes=False)


def _lowered(layer: HybridLayer, isa: Isa, window: Window, weights: NDArray[np.int8], lanes: bool) -> Lowered:
    uniform = len(layer.scales) == 1 and not layer.asymmetric
    scaling = Scaling.UNIFORM if uniform else Scaling.CHANNEL_FIRST if layer.channel_first else Scaling.PRODUCT
    scales = np.broadcast_to(layer.scales, layer.bias.shape)

    def kernel(channels: int, pixels: int, unroll: int) -> HybridWindow:
        low, high = max(layer.minimum, -LARGEST), min(layer.maximum, LARGEST)
        return HybridWindow(channels, pixels, unroll, lanes, low, high, layer.asymmetric, scaling)

    def record(channels: NDArray[np.int64]) -> bytes:
        parts = [layer.bias[channels], *([] if uniform else [scales[channels]])]
        return b"".join(part.astype("<f4").tobytes() for part in parts)

    count = window.input_height * window.input_width * window.input_channels
    if layer.asymmetric:
        quantize = KernelCall(AsymmetricInput(isa), (INPUT, SCRATCH, count))
    else:
        factor = float_bits(float(layer.scales[0])) if uniform else float_bits(1.0)
        quantize = KernelCall(SymmetricInput(isa), (INPUT, SCRATCH, count, factor))
    walked = WindowLayer(window, weights.astype(np.int8), lanes, DATA, kernel, record, BLOCKING, (SCRATCH,))
    element = 2 if layer.asymmetric else 1
    return Lowered((quantize, *window_calls(walked)), DATA_OFFSET + count * element, layer.macs)
