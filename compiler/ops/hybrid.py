# SPDX-License-Identifier: Apache-2.0
"""Hybrid layers: float activations with int8 weights, computed in integers as LiteRT does.

CONV_2D with one scale and one group quantises its input symmetrically, else asymmetrically; DEPTHWISE_CONV_2D always
asymmetrically; FULLY_CONNECTED row by row, as its option says.

Source: LiteRT, kernels/{conv,depthwise_conv,fully_connected}.cc (EvalHybrid, EvalHybridPerChannel).
"""

from __future__ import annotations

import numpy as np

from compiler.graph import DType
from compiler.kernels.problems import HybridLayer, Window
from compiler.ops.activation import float_range
from compiler.ops.definition import Array, OperatorView

FILTER_POSITION, BIAS_POSITION = 1, 2


def is_hybrid(view: OperatorView) -> bool:
    """Float input and integer weights."""
    return view.input().dtype is DType.FLOAT32 and view.input(FILTER_POSITION).dtype is not DType.FLOAT32


def conv_problem(view: OperatorView, window: Window) -> HybridLayer:
    """The hybrid convolution of one image; its weights may be grouped."""
    weights = view.input(FILTER_POSITION)
    scales = np.array(weights.quant.scales, np.float32)
    grouped = weights.shape[3] != window.input_channels
    if not grouped and (scales == scales[0]).all():
        return _layer(view, window, weights.constant, scales[:1])
    return _layer(view, window, weights.constant, scales, asymmetric=True, channel_first=True)


def depthwise_problem(view: OperatorView, window: Window) -> HybridLayer:
    """The hybrid depthwise convolution of one image."""
    weights = view.input(FILTER_POSITION)
    return _layer(view, window, weights.constant[0], np.array(weights.quant.scales, np.float32), asymmetric=True)


def fully_connected_problem(view: OperatorView, window: Window, asymmetric: bool) -> HybridLayer:
    """The hybrid fully connected layer; `window` has a pixel a row."""
    weights = view.input(FILTER_POSITION)
    return _layer(view, window, weights.constant, np.array(weights.quant.scales, np.float32), asymmetric)


def _layer(
    view: OperatorView,
    window: Window,
    weights: Array,
    scales: Array,
    asymmetric: bool = False,
    channel_first: bool = False,
) -> HybridLayer:
    bias = view.optional(BIAS_POSITION)
    channels = window.output_channels
    values = np.zeros(channels, np.float32) if bias is None else bias.constant.astype(np.float32).reshape(channels)
    clamp = float_range(view.attributes.activation)
    return HybridLayer(window, weights.astype(np.int8), values, scales, asymmetric, channel_first, *clamp)
