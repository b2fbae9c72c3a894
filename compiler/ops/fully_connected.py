# SPDX-License-Identifier: Apache-2.0
"""FULLY_CONNECTED: rows of the flattened input times the transposed weights [outputs, depth].

Source: TensorFlow Lite Micro, kernels/fully_connected_common.cc; TensorFlow Lite,
kernels/internal/reference/integer_ops/fully_connected.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from compiler import float_numerics, hybrid_numerics, numerics
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.floats import layers as float_layers
from compiler.kernels.hybrid import layers as hybrid_layers
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable import byte_fully_connected, wide_layers
from compiler.kernels.portable.byte_fully_connected import ByteFullyConnected
from compiler.kernels.problems import FloatLayer, FullyConnected, HybridLayer, Window
from compiler.ops import hybrid, layers
from compiler.ops.activation import Activation, quantized_range
from compiler.ops.constraints import constant, inputs_between, int16_zero_points_are_zero, quantized_per_tensor, rank
from compiler.ops.definition import Array, OperatorDefinition, OperatorView


@dataclass(frozen=True)
class FullyConnectedAttributes:
    """Options of FULLY_CONNECTED; `shuffled_weights` is TFLite's SHUFFLED4x16INT8 format, and
    `asymmetric_inputs` how hybrid layers quantise their input. `from_uint8`: the layer was uint8."""

    activation: Activation = Activation.NONE
    keep_dimensions: bool = False
    shuffled_weights: bool = False
    asymmetric_inputs: bool = False
    from_uint8: bool = False


def parse(options: Any) -> FullyConnectedAttributes:
    if options is None:
        return FullyConnectedAttributes()
    return FullyConnectedAttributes(
        Activation(options.FusedActivationFunction()),
        bool(options.KeepNumDims()),
        bool(options.WeightsFormat()),
        bool(options.AsymmetricQuantizeInputs()),
    )


def plain_weights(view: OperatorView) -> str | None:
    """The weights are in the default format."""
    return "SHUFFLED4x16INT8" if view.attributes.shuffled_weights else None


def consistent_shapes(view: OperatorView) -> str | None:
    """The input's size is a multiple of the weights' depth, and the output holds a row of outputs for each."""
    source, weights, output = view.input(), view.input(layers.FILTER_POSITION), view.output()
    bias = view.optional(layers.BIAS_POSITION)
    outputs, depth = weights.shape
    if min(outputs, depth, source.elements) < 1 or source.elements % depth:
        return f"input {list(source.shape)}, weights {list(weights.shape)}"
    if bias is not None and bias.elements != outputs:
        return f"{bias.elements} biases for {outputs} outputs"
    rows = source.elements // depth
    wanted = f"{rows} rows of {outputs}"
    return None if output.elements == rows * outputs else f"output {list(output.shape)}, not {wanted}"


def problem(view: OperatorView) -> FullyConnected:
    """The integer layer."""
    source, weights, output = view.input(), view.input(layers.FILTER_POSITION), view.output()
    outputs, depth = weights.shape
    quantization = weights.quant
    if len(quantization.scales) == 1:
        multipliers = [layers.tensor_multiplier(source, weights, output)]
    else:
        multipliers = layers.channel_multipliers(source, weights, output)
    return FullyConnected(
        batches=prod(source.shape) // depth,
        weights=weights.constant.astype(np.int8),
        bias=layers.bias_values(view, outputs),
        input_zero_point=source.zero_point,
        filter_zero_point=quantization.zero_points[0] if len(quantization.zero_points) == 1 else 0,
        requantization=layers.requantization(multipliers, outputs, output, view.attributes.activation),
        activation_bits=8 * source.dtype.bytes,
        wide=layers.is_wide(view),
    )


def byte_problem(view: OperatorView) -> ByteFullyConnected:
    """The layer of a legacy uint8 model."""
    source, weights, output = view.input(), view.input(layers.FILTER_POSITION), view.output()
    outputs, depth = weights.shape
    return ByteFullyConnected(
        source.elements // depth,
        weights.constant,
        layers.bias_values(view, outputs),
        source.zero_point,
        weights.zero_point,
        source.scale * weights.scale / output.scale,
        output.zero_point,
        *quantized_range(view.attributes.activation, output),
    )


def exact_scaling(view: OperatorView) -> str | None:
    """A UINT8 layer's sums and scales have an exact fixed-point form."""
    if not view.attributes.from_uint8 or byte_fully_connected.scaling(byte_problem(view)) is not None:
        return None
    return f"sums up to {byte_problem(view).greatest_sum}, scale {byte_problem(view).scale:g}"


def float_problem(view: OperatorView) -> FloatLayer:
    """The float layer; its pixels are the rows."""
    weights = view.input(layers.FILTER_POSITION)
    outputs, depth = weights.shape
    rows = view.input().elements // depth
    return layers.float_layer(view, Window(1, rows, depth, 1, rows, outputs, 1, 1, 1, 1, 0, 0), weights.constant)


def hybrid_problem(view: OperatorView, rows: int) -> HybridLayer:
    """The hybrid layer of `rows` rows."""
    outputs, depth = view.input(layers.FILTER_POSITION).shape
    return hybrid.fully_connected_problem(
        view, Window(1, rows, depth, 1, rows, outputs, 1, 1, 1, 1, 0, 0), view.attributes.asymmetric_inputs
    )


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    (x, *_) = inputs
    assert x is not None
    output, depth = view.output(), view.input(layers.FILTER_POSITION).shape[1]
    rows = x.reshape(-1, depth)
    if hybrid.is_hybrid(view):
        return [hybrid_numerics.fully_connected(hybrid_problem(view, len(rows)), rows).reshape(output.shape)]
    if view.attributes.from_uint8:
        found = byte_fully_connected.reference(byte_problem(view), rows)
        return [found.astype(output.dtype.numpy).reshape(output.shape)]
    if output.dtype is DType.FLOAT32:
        return [float_numerics.fully_connected(float_problem(view), rows).reshape(output.shape)]
    return [numerics.fully_connected(problem(view), rows).astype(output.dtype.numpy).reshape(output.shape)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    if hybrid.is_hybrid(view):
        outputs, depth = view.input(layers.FILTER_POSITION).shape
        one = hybrid_layers.fully_connected(hybrid_problem(view, 1), isa)
        return layers.per_image(one, view.input().elements // depth, 4 * depth, 4 * outputs)
    if view.input().dtype is DType.FLOAT32:
        return float_layers.fully_connected(float_problem(view))
    if view.input().dtype is DType.INT16:
        return wide_layers.fully_connected(isa, problem(view))
    if view.attributes.from_uint8:
        return byte_fully_connected.lower(isa, byte_problem(view))
    return isa.fully_connected(problem(view))


DEFINITIONS = (
    OperatorDefinition(
        "FULLY_CONNECTED",
        parse,
        (
            inputs_between(2, 3),
            layers.layer_types,
            rank(1, 2),
            constant(1, "The weights"),
            constant(2, "The bias"),
            layers.clamping_activation,
            plain_weights,
            consistent_shapes,
            quantized_per_tensor(0),
            int16_zero_points_are_zero,
            layers.weight_quantization(0, per_channel=False),
            layers.moderate_multipliers,
            layers.moderate_bias,
            exact_scaling,
        ),
        reference,
        lower,
    ),
)
