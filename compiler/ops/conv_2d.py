# SPDX-License-Identifier: Apache-2.0
"""CONV_2D: a two-dimensional convolution, NHWC, with groups where the filter has fewer channels than the input.

Source: TensorFlow Lite, kernels/internal/reference/integer_ops/conv.h, reference/conv.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler import float_numerics, hybrid_numerics, numerics
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.floats import layers as float_layers
from compiler.kernels.hybrid import layers as hybrid_layers
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable import nine_bit_layers, wide_layers
from compiler.kernels.problems import Conv2D, DepthwiseConv2D, FloatLayer, Requantization, Window
from compiler.ops import hybrid, layers
from compiler.ops.activation import Activation
from compiler.ops.bands import sliding
from compiler.ops.constraints import constant, inputs_between, int16_zero_points_are_zero, quantized_per_tensor, rank
from compiler.ops.definition import Array, OperatorDefinition, OperatorView
from compiler.ops.geometry import AnyPadding, Padding, Slide


@dataclass(frozen=True)
class Conv2DAttributes:
    """Options of CONV_2D. `from_uint8`: the layer was uint8, with one scale for all weights."""

    padding: AnyPadding
    stride_height: int
    stride_width: int
    dilation_height: int = 1
    dilation_width: int = 1
    activation: Activation = Activation.NONE
    from_uint8: bool = False


def parse(options: Any) -> Conv2DAttributes:
    if options is None:
        return Conv2DAttributes(Padding.SAME, 1, 1)
    return Conv2DAttributes(
        Padding(options.Padding()),
        options.StrideH(),
        options.StrideW(),
        options.DilationHFactor(),
        options.DilationWFactor(),
        Activation(options.FusedActivationFunction()),
    )


def slide(view: OperatorView) -> Slide:
    a: Conv2DAttributes = view.attributes
    _, height, width, _ = view.input(layers.FILTER_POSITION).shape
    return Slide(height, width, a.stride_height, a.stride_width, a.padding, a.dilation_height, a.dilation_width)


def positive_steps(view: OperatorView) -> str | None:
    """Strides and dilations are at least 1."""
    a = view.attributes
    steps = (a.stride_height, a.stride_width, a.dilation_height, a.dilation_width)
    return None if min(steps) >= 1 else f"strides {steps[:2]}, dilations {steps[2:]}"


def consistent_shapes(view: OperatorView) -> str | None:
    """The filter's channels divide the input's, groups divide the output channels, and the output has the shape that
    padding and strides give; only an INT8 window may see nothing but padding."""
    source, weights, output = view.input(), view.input(layers.FILTER_POSITION), view.output()
    bias = view.optional(layers.BIAS_POSITION)
    batches, height, width, channels = source.shape
    outputs, _, _, filter_channels = weights.shape
    if min(source.shape + weights.shape) < 1 or channels % filter_channels or outputs % (channels // filter_channels):
        return f"input {list(source.shape)}, filter {list(weights.shape)}"
    if bias is not None and bias.elements != outputs:
        return f"{bias.elements} biases for {outputs} output channels"
    expected = (batches, *slide(view).output_shape(height, width), outputs)
    if output.shape != expected or min(expected) < 1:
        return f"output {list(output.shape)}, not {list(expected)}"
    return layers.windows_see_input(view, slide(view).window(source, output))


def problem(view: OperatorView) -> Conv2D | DepthwiseConv2D:
    """The integer convolution of one image; groups of one input channel each are a depthwise convolution."""
    source, weights, output = view.input(), view.input(layers.FILTER_POSITION), view.output()
    window = slide(view).window(source, output)
    rescale = layers.requantization(
        layers.real_multipliers(view), window.output_channels, output, view.attributes.activation
    )
    return grouped(view, window, weights.constant, rescale)


def grouped(view: OperatorView, window: Window, weights: Array, rescale: Requantization) -> Conv2D | DepthwiseConv2D:
    """The layer of `weights` [outputs, height, width, channels of a group]."""
    bias = layers.bias_values(view, window.output_channels)
    bits = 8 * view.input().dtype.bytes
    wide = layers.is_wide(view)
    if weights.shape[3] == 1 and window.input_channels > 1:
        kernel = np.ascontiguousarray(weights[..., 0].transpose(1, 2, 0))
        return DepthwiseConv2D(window, kernel, bias, view.input().zero_point, rescale, bits, wide)
    return Conv2D(window, ungrouped(weights, window.input_channels), bias, view.input().zero_point, rescale, bits, wide)


def ungrouped(weights: Array, channels: int) -> Array:
    """Weights over all input channels: zero outside each output channel's group."""
    outputs, height, width, depth = weights.shape
    if depth == channels:
        return weights
    dense = np.zeros((outputs, height, width, channels), weights.dtype)
    for output in range(outputs):
        first = output // (outputs * depth // channels) * depth
        dense[output, :, :, first : first + depth] = weights[output]
    return dense


def float_problem(view: OperatorView) -> FloatLayer:
    """The float convolution of one image; its weights may be grouped."""
    window = slide(view).window(view.input(), view.output())
    return layers.float_layer(view, window, view.input(layers.FILTER_POSITION).constant)


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    (x, *_) = inputs
    assert x is not None
    if hybrid.is_hybrid(view):
        hybrid_layer = hybrid.conv_problem(view, slide(view).window(view.input(), view.output()))
        return [np.stack([hybrid_numerics.conv_2d(hybrid_layer, image) for image in x])]
    if view.input().dtype is DType.FLOAT32:
        float_layer = float_problem(view)
        return [np.stack([float_numerics.conv_2d(float_layer, image) for image in x])]
    layer = problem(view)
    images = [
        numerics.conv_2d(layer, image) if isinstance(layer, Conv2D) else numerics.depthwise_conv_2d(layer, image)
        for image in x
    ]
    return [np.stack(images).astype(view.output().dtype.numpy)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    source, weights, output = view.input(), view.input(layers.FILTER_POSITION), view.output()
    batches = source.shape[0]
    whole = layers.per_image(_lower_image(view, isa), batches, source.bytes // batches, output.bytes // batches)
    return layers.with_macs(whole, output.elements * weights.elements // weights.shape[0])


def _lower_image(view: OperatorView, isa: Isa) -> Lowered:
    if hybrid.is_hybrid(view):
        window = slide(view).window(view.input(), view.output())
        return hybrid_layers.conv_2d(hybrid.conv_problem(view, window), isa)
    if view.input().dtype is DType.FLOAT32:
        return float_layers.conv_2d(float_problem(view))
    layer = problem(view)
    if view.input().dtype is DType.INT16:
        if isinstance(layer, Conv2D):
            return wide_layers.conv_2d(isa, layer)
        return wide_layers.depthwise_conv_2d(isa, layer)
    if isinstance(layer, Conv2D):
        return nine_bit_layers.conv_2d(isa, layer)
    return nine_bit_layers.depthwise_conv_2d(isa, layer)


DEFINITIONS = (
    OperatorDefinition(
        "CONV_2D",
        parse,
        (
            inputs_between(2, 3),
            layers.layer_types,
            rank(0, 4),
            rank(1, 4),
            constant(1, "The filter"),
            constant(2, "The bias"),
            layers.clamping_activation,
            positive_steps,
            consistent_shapes,
            quantized_per_tensor(0),
            int16_zero_points_are_zero,
            layers.weight_quantization(0),
            layers.moderate_multipliers,
            layers.moderate_bias,
        ),
        reference,
        lower,
        bands=sliding(slide),
    ),
)
