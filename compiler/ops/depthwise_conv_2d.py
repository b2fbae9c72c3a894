# SPDX-License-Identifier: Apache-2.0
"""DEPTHWISE_CONV_2D: each input channel makes `multiplier` output channels, NHWC.

Source: TensorFlow Lite, kernels/internal/reference/integer_ops/depthwise_conv.h, reference/depthwiseconv_float.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from compiler import float_numerics, hybrid_numerics, numerics
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.floats import layers as float_layers
from compiler.kernels.hybrid import layers as hybrid_layers
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable import nine_bit_layers, wide_layers
from compiler.kernels.problems import DepthwiseConv2D, FloatLayer
from compiler.ops import hybrid, layers
from compiler.ops.activation import Activation
from compiler.ops.bands import sliding
from compiler.ops.constraints import constant, inputs_between, int16_zero_points_are_zero, quantized_per_tensor, rank
from compiler.ops.conv_2d import Conv2DAttributes, positive_steps
from compiler.ops.definition import Array, OperatorDefinition, OperatorView
from compiler.ops.geometry import Padding, Slide


def parse(options: Any) -> Conv2DAttributes:
    """The depth multiplier is left aside: it follows from the shapes, as in the reference."""
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


def consistent_shapes(view: OperatorView) -> str | None:
    """The filter is [1, height, width, outputs] with outputs a multiple of the input's channels, and the output has
    the shape that padding and strides give; only an INT8 window may see nothing but padding."""
    source, weights, output = view.input(), view.input(layers.FILTER_POSITION), view.output()
    bias = view.optional(layers.BIAS_POSITION)
    batches, height, width, channels = source.shape
    ones, _, _, outputs = weights.shape
    if min(source.shape + weights.shape) < 1 or ones != 1 or outputs % channels:
        return f"input {list(source.shape)}, filter {list(weights.shape)}"
    if bias is not None and bias.elements != outputs:
        return f"{bias.elements} biases for {outputs} output channels"
    expected = (batches, *slide(view).output_shape(height, width), outputs)
    if output.shape != expected or min(expected) < 1:
        return f"output {list(output.shape)}, not {list(expected)}"
    return layers.windows_see_input(view, slide(view).window(source, output))


def problem(view: OperatorView) -> DepthwiseConv2D:
    """The integer depthwise convolution of one image."""
    source, weights, output = view.input(), view.input(layers.FILTER_POSITION), view.output()
    window = slide(view).window(source, output)
    return DepthwiseConv2D(
        window=window,
        weights=weights.constant[0],
        bias=layers.bias_values(view, window.output_channels),
        input_zero_point=source.zero_point,
        requantization=layers.requantization(
            layers.real_multipliers(view),
            window.output_channels,
            output,
            view.attributes.activation,
        ),
        activation_bits=8 * source.dtype.bytes,
        wide=layers.is_wide(view),
    )


def float_problem(view: OperatorView) -> FloatLayer:
    """The float depthwise convolution of one image."""
    window = slide(view).window(view.input(), view.output())
    return layers.float_layer(view, window, view.input(layers.FILTER_POSITION).constant[0], depthwise=True)


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    (x, *_) = inputs
    assert x is not None
    if hybrid.is_hybrid(view):
        hybrid_layer = hybrid.depthwise_problem(view, slide(view).window(view.input(), view.output()))
        return [np.stack([hybrid_numerics.depthwise_conv_2d(hybrid_layer, image) for image in x])]
    if view.input().dtype is DType.FLOAT32:
        float_layer = float_problem(view)
        return [np.stack([float_numerics.depthwise_conv_2d(float_layer, image) for image in x])]
    layer = problem(view)
    return [np.stack([numerics.depthwise_conv_2d(layer, i) for i in x]).astype(view.output().dtype.numpy)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    source, output = view.input(), view.output()
    batches = source.shape[0]
    return layers.per_image(_lower_image(view, isa), batches, source.bytes // batches, output.bytes // batches)


def _lower_image(view: OperatorView, isa: Isa) -> Lowered:
    if hybrid.is_hybrid(view):
        window = slide(view).window(view.input(), view.output())
        return hybrid_layers.depthwise_conv_2d(hybrid.depthwise_problem(view, window), isa)
    if view.input().dtype is DType.FLOAT32:
        return float_layers.depthwise_conv_2d(float_problem(view))
    if view.input().dtype is DType.INT16:
        return wide_layers.depthwise_conv_2d(isa, problem(view))
    return nine_bit_layers.depthwise_conv_2d(isa, problem(view))


DEFINITIONS = (
    OperatorDefinition(
        "DEPTHWISE_CONV_2D",
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
            layers.weight_quantization(3),
            layers.moderate_multipliers,
            layers.moderate_bias,
        ),
        reference,
        lower,
        bands=sliding(slide),
    ),
)
