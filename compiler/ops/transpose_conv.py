# SPDX-License-Identifier: Apache-2.0
"""TRANSPOSE_CONV: each input cell adds its multiple of the filter to the output, NHWC.

Source: LiteRT, kernels/transpose_conv.cc, kernels/internal/reference/integer_ops/transpose_conv.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from compiler import float_numerics, numerics
from compiler.graph import DType, Operator
from compiler.isa import Isa
from compiler.kernels.floats import layers as float_layers
from compiler.kernels.kernel import KernelCall, Lowered, Place, Role
from compiler.kernels.portable import nine_bit_layers, transpose_conv, wide_layers
from compiler.kernels.portable.transpose_conv import Scatter
from compiler.kernels.problems import Conv2D, Requantization, Window
from compiler.ops import layers
from compiler.ops.activation import Activation, float_range
from compiler.ops.constraints import (
    constant,
    inputs_between,
    int16_zero_points_are_zero,
    quantized_per_tensor,
    rank,
    stated,
)
from compiler.ops.definition import Array, Constraint, OperatorDefinition, OperatorView, rule
from compiler.ops.geometry import Padding, leading_padding, output_size

SHAPE, FILTER, INPUT, BIAS = range(4)


@dataclass(frozen=True)
class TransposeConvAttributes:
    """Options of TRANSPOSE_CONV. `from_uint8`: the layer was uint8, with one scale for all weights."""

    padding: Padding
    stride_height: int
    stride_width: int
    activation: Activation = Activation.NONE
    from_uint8: bool = False


def parse(options: Any) -> TransposeConvAttributes:
    if options is None:
        return TransposeConvAttributes(Padding.SAME, 0, 0)
    return TransposeConvAttributes(
        Padding(options.Padding()),
        options.StrideH(),
        options.StrideW(),
        Activation(options.FusedActivationFunction()),
    )


def as_layer(view: OperatorView) -> OperatorView:
    """The operator with its operands in the order of the other layers: input, filter, bias."""
    operator: Operator = view.operator
    shape, weights, source, *bias = operator.inputs
    del shape
    return OperatorView(view.graph, replace(operator, inputs=(source, weights, *bias)))


def layer_rule(constraint: Constraint) -> Constraint:
    """A constraint of the other layers."""
    return stated(rule(constraint), lambda view: constraint(as_layer(view)))


def stated_shape(view: OperatorView) -> str | None:
    """A constant output shape is the output's. (One that is computed at run time does not count: the shape that the
    model states does, as in TFLite Micro.)"""
    shape = view.input(SHAPE)
    if shape.data is None or tuple(shape.data.reshape(-1).tolist()) == view.output().shape:
        return None
    return f"{shape.data.reshape(-1).tolist()} for an output of {list(view.output().shape)}"


def positive_strides(view: OperatorView) -> str | None:
    """Strides are at least 1."""
    a: TransposeConvAttributes = view.attributes
    return None if min(a.stride_height, a.stride_width) >= 1 else f"strides {a.stride_height, a.stride_width}"


def float_weights(view: OperatorView) -> str | None:
    """A FLOAT32 input has FLOAT32 weights."""
    source, weights = view.input(INPUT), view.input(FILTER)
    return weights.dtype.name if source.dtype is DType.FLOAT32 and weights.dtype is not DType.FLOAT32 else None


def consistent_shapes(view: OperatorView) -> str | None:
    """Filter [outputs, height, width, inputs], input and output agree in their channels and batches."""
    source, weights, output = view.input(INPUT), view.input(FILTER), view.output()
    bias = view.optional(BIAS)
    outputs, _, _, channels = weights.shape
    if len(output.shape) != 4 or min(source.shape + weights.shape + output.shape) < 1:
        return f"input {list(source.shape)}, filter {list(weights.shape)}, output {list(output.shape)}"
    if (source.shape[3], output.shape[3], output.shape[0]) != (channels, outputs, source.shape[0]):
        return f"input {list(source.shape)}, filter {list(weights.shape)}, output {list(output.shape)}"
    if bias is not None and bias.elements != outputs:
        return f"{bias.elements} biases for {outputs} output channels"
    return None


def scatter(view: OperatorView) -> Scatter:
    """The geometry of one image. The padding follows from the output's size, as if it were a convolution's input."""
    a: TransposeConvAttributes = view.attributes
    _, height, width, channels = view.input(INPUT).shape
    _, kernel_height, kernel_width, _ = view.input(FILTER).shape
    _, output_height, output_width, outputs = view.output().shape

    def pad(size: int, kernel: int, stride: int) -> int:
        return leading_padding(size, output_size(a.padding, size, kernel, stride), kernel, stride)

    return Scatter(
        height, width, channels, output_height, output_width, outputs, kernel_height, kernel_width,
        a.stride_height, a.stride_width,
        pad(output_height, kernel_height, a.stride_height), pad(output_width, kernel_width, a.stride_width),
    )  # fmt: skip


def scattered(s: Scatter, x: Array, weights: Array, dtype: Any) -> Array:
    """The sums of products of one image x [H, W, C]: [output_height, output_width, output_channels]."""
    height = max((s.input_height - 1) * s.stride_height + s.kernel_height, s.pad_top + s.output_height)
    width = max((s.input_width - 1) * s.stride_width + s.kernel_width, s.pad_left + s.output_width)
    total = np.zeros((height, width, s.output_channels), dtype)
    with np.errstate(all="ignore"):
        for y, column in np.ndindex(s.input_height, s.input_width):
            top, left = y * s.stride_height, column * s.stride_width
            part = total[top : top + s.kernel_height, left : left + s.kernel_width]
            for channel in range(s.input_channels):
                part += x[y, column, channel].astype(dtype) * weights[..., channel].transpose(1, 2, 0).astype(dtype)
    return total[s.pad_top : s.pad_top + s.output_height, s.pad_left : s.pad_left + s.output_width]


def finished(layer: OperatorView, s: Scatter, total: Array) -> Array:
    """The outputs [..., output_channels] of sums of products."""
    output = layer.output()
    if output.dtype is DType.FLOAT32:
        bias = layer.optional(layers.BIAS_POSITION)
        values = np.zeros(s.output_channels, np.float32) if bias is None else bias.constant.reshape(-1)
        return float_numerics.clamp(total + values, *float_range(layer.attributes.activation))
    rescale = _requantization(layer, s.output_channels)
    total = total + layers.bias_values(layer, s.output_channels)
    return numerics.requantize(total, rescale, layers.is_wide(layer)).astype(output.dtype.numpy)


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    x = inputs[INPUT]
    assert x is not None
    layer, s, weights = as_layer(view), scatter(view), view.input(FILTER).constant
    if x.dtype.kind == "f":
        totals = [scattered(s, image, weights, np.float32) for image in x]
    else:
        totals = [scattered(s, image.astype(np.int64) - layer.input().zero_point, weights, np.int64) for image in x]
    return [finished(layer, s, np.stack(totals))]


def _requantization(layer: OperatorView, channels: int) -> Requantization:
    multipliers = layers.real_multipliers(layer)
    return layers.requantization(multipliers, channels, layer.output(), layer.attributes.activation)


def _problem(layer: OperatorView, window: Window, weights: Array) -> Conv2D:
    """The integer convolution of a phase."""
    source, channels = layer.input(), window.output_channels
    bias, bits = layers.bias_values(layer, channels), 8 * source.dtype.bytes
    rescale = _requantization(layer, channels)
    return Conv2D(window, weights, bias, source.zero_point, rescale, bits, layers.is_wide(layer))


def lower(view: OperatorView, isa: Isa) -> Lowered:
    layer, s = as_layer(view), scatter(view)
    source, output = layer.input(), layer.output()

    def convolution(window: Window, weights: Array) -> Lowered:
        if source.dtype is DType.FLOAT32:
            return float_layers.conv_2d(layers.float_layer(layer, window, weights))
        problem = _problem(layer, window, weights)
        if problem.activation_bits == 16:
            return wide_layers.conv_2d(isa, problem)
        return nine_bit_layers.conv_2d(isa, problem)

    nothing = np.zeros(s.output_channels, np.float32 if source.dtype is DType.FLOAT32 else np.int64)
    idle = finished(layer, s, nothing)
    one = transpose_conv.transpose_conv(isa, s, view.input(FILTER).constant, idle, convolution)
    batches = source.shape[0]
    return layers.per_image(_reading(one), batches, source.bytes // batches, output.bytes // batches)


def _reading(lowered: Lowered) -> Lowered:
    """The lowering and its alternatives with their input at the operator's position of it."""

    def place(argument: Any) -> Any:
        if isinstance(argument, Place) and argument.role is Role.INPUT:
            return replace(argument, index=INPUT)
        return argument

    def call(one: KernelCall) -> KernelCall:
        return replace(one, arguments=tuple(place(a) for a in one.arguments))

    others = tuple(_reading(other) for other in lowered.alternatives)
    return replace(lowered, calls=tuple(call(one) for one in lowered.calls), alternatives=others)


DEFINITIONS = (
    OperatorDefinition(
        "TRANSPOSE_CONV",
        parse,
        (
            inputs_between(3, 4),
            layer_rule(layers.layer_types),
            float_weights,
            rank(FILTER, 4),
            rank(INPUT, 4),
            constant(FILTER, "The filter"),
            constant(BIAS, "The bias"),
            layers.clamping_activation,
            positive_strides,
            stated_shape,
            consistent_shapes,
            layer_rule(quantized_per_tensor(0)),
            layer_rule(int16_zero_points_are_zero),
            layer_rule(layers.weight_quantization(0)),
            layer_rule(layers.moderate_multipliers),
            layer_rule(layers.moderate_bias),
        ),
        reference,
        lower,
    ),
)
