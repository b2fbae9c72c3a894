# SPDX-License-Identifier: Apache-2.0
"""What the convolutions and FULLY_CONNECTED have in common: requantisation, bias, constraints, batches.

Source: TensorFlow Lite Micro, kernels/conv_common.cc, depthwise_conv_common.cc, fully_connected_common.cc;
TensorFlow Lite, kernels/kernel_util.cc (PopulateConvolutionQuantizationParams).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from compiler.graph import DType, Tensor
from compiler.kernels.kernel import KernelCall, Lowered, Place, Role
from compiler.kernels.overlap import of_images
from compiler.kernels.portable.windows import every_window_sees_input
from compiler.kernels.problems import FloatLayer, Requantization, Window
from compiler.numerics import quantize_multiplier
from compiler.ops.activation import Activation, float_range, quantized_range
from compiler.ops.constraints import stated
from compiler.ops.definition import Constraint, OperatorView

INPUT_POSITION, FILTER_POSITION, BIAS_POSITION = 0, 1, 2
LARGEST_BIAS = 1 << 46


def requantization(
    real_multipliers: list[float], channels: int, output: Tensor, activation: Activation
) -> Requantization:
    """The requantisation of `channels` output channels; one multiplier stands for all of them."""
    pairs = [quantize_multiplier(m) for m in real_multipliers]
    if len(pairs) == 1:
        pairs *= channels
    minimum, maximum = quantized_range(activation, output)
    return Requantization(
        multipliers=np.array([m for m, _ in pairs], np.int64),
        shifts=np.array([s for _, s in pairs], np.int64),
        zero_point=output.zero_point,
        minimum=minimum,
        maximum=maximum,
    )


def real_multipliers(view: OperatorView) -> list[float]:
    """The real multipliers of a convolution: one a channel, or one alone."""
    source, weights, output = view.input(), view.input(FILTER_POSITION), view.output()
    if view.attributes.from_uint8:
        return [tensor_multiplier(source, weights, output)]
    return channel_multipliers(source, weights, output)


def tensor_multiplier(source: Tensor, weights: Tensor, output: Tensor) -> float:
    """input scale * weight scale / output scale, where the product is rounded to float32."""
    product = np.float32(source.scale) * np.float32(weights.scale)
    return float(product) / output.scale


def channel_multipliers(source: Tensor, weights: Tensor, output: Tensor) -> list[float]:
    """input scale * weight scale / output scale, a channel each, in double and in this order."""
    return [source.scale * scale / output.scale for scale in weights.quant.scales]


def bias_values(view: OperatorView, channels: int) -> NDArray[np.int64]:
    """The bias [channels]; zeros where the operator has none."""
    bias = view.optional(BIAS_POSITION)
    return np.zeros(channels, np.int64) if bias is None else bias.constant.astype(np.int64).reshape(channels)


def float_layer(
    view: OperatorView, window: Window, weights: NDArray[np.float32], depthwise: bool = False
) -> FloatLayer:
    """The float layer of these weights with the operator's bias and activation."""
    bias = view.optional(BIAS_POSITION)
    channels = window.output_channels
    values = np.zeros(channels, np.float32) if bias is None else bias.constant.astype(np.float32).reshape(channels)
    return FloatLayer(window, weights, values, *float_range(view.attributes.activation), depthwise)


def is_wide(view: OperatorView) -> bool:
    """int16x8 accumulates in 64 bits, and is rescaled so, unless its bias is int32."""
    bias = view.optional(BIAS_POSITION)
    return view.input().dtype is DType.INT16 and (bias is None or bias.dtype is DType.INT64)


def per_image(one: Lowered, images: int, input_bytes: int, output_bytes: int) -> Lowered:
    """The lowering of `images` consecutive images from that of one; scratch memory is used again."""
    advance = {Role.INPUT: input_bytes, Role.OUTPUT: output_bytes, Role.SCRATCH: 0}

    def moved(call: KernelCall, image: int) -> KernelCall:
        return replace(
            call,
            arguments=tuple(
                replace(a, offset=a.offset + image * advance[a.role]) if isinstance(a, Place) else a
                for a in call.arguments
            ),
        )

    calls = tuple(moved(call, image) for image in range(images) for call in one.calls)
    others = tuple(per_image(other, images, input_bytes, output_bytes) for other in one.alternatives)
    overlaps = tuple(
        of_images(overlap, images, input_bytes, output_bytes)
        for overlap in one.overlaps
        if images == 1 or not overlap.scratch
    )
    return replace(
        one,
        calls=calls,
        macs=one.macs * images,
        instructions=one.instructions * images,
        alternatives=others,
        overlaps=overlaps,
    )


def with_macs(lowered: Lowered, macs: int) -> Lowered:
    """The lowering and its alternatives, standing for `macs` multiply-accumulates."""
    return replace(lowered, macs=macs, alternatives=tuple(replace(a, macs=macs) for a in lowered.alternatives))


def layer_types(view: OperatorView) -> str | None:
    """Input, weights, bias and output are INT8, INT8, INT32, INT8; or INT16, INT8, INT32 or INT64, INT16; or all
    FLOAT32, where the weights may be INT8. INT8 weights may be INT4 too, except beside INT16."""
    source, weights, output = view.input(), view.input(FILTER_POSITION), view.output()
    bias = view.optional(BIAS_POSITION)
    biases, filters = {
        DType.INT8: ((DType.INT32,), (DType.INT8, DType.INT4)),
        DType.INT16: ((DType.INT32, DType.INT64), (DType.INT8,)),
        DType.FLOAT32: ((DType.FLOAT32,), (DType.FLOAT32, DType.INT8, DType.INT4)),
    }.get(source.dtype, ((), ()))
    if getattr(view.attributes, "from_uint8", False) and source.dtype is DType.INT8:
        filters = (DType.INT8, DType.INT16)
    if weights.dtype in filters and output.dtype is source.dtype and (bias is None or bias.dtype in biases):
        return None
    got = [source, weights, *([bias] if bias else []), output]
    return ", ".join(tensor.dtype.name for tensor in got)


def weight_quantization(channel_axis: int, per_channel: bool = True) -> Constraint:
    """INT8 weights have one scale, or one for each output channel along `channel_axis`, and zero points 0."""

    def check(view: OperatorView) -> str | None:
        weights = view.input(FILTER_POSITION)
        if weights.dtype is DType.FLOAT32:
            return None
        quantization = weights.quantization
        if quantization is None:
            return f"'{weights.name}' has no quantisation"
        if not all(0 <= s < float("inf") for s in quantization.scales):
            return f"'{weights.name}' has a negative or infinite scale"
        if len(quantization.zero_points) == 1 and not per_channel:
            if not -128 <= quantization.zero_point <= 127:
                return f"'{weights.name}' has zero point {quantization.zero_point}"
        elif any(quantization.zero_points):
            return f"'{weights.name}' has zero point {next(z for z in quantization.zero_points if z)}"
        count, channels = len(quantization.scales), weights.shape[channel_axis]
        if count == 1 or (count == channels and quantization.axis == channel_axis):
            return None
        return f"{count} scales along axis {quantization.axis} for {channels} output channels"

    zero = " and zero points 0" if per_channel else ""
    return stated(f"Quantised weights have one scale, or one for each output channel{zero}.", check)


def moderate_multipliers(view: OperatorView) -> str | None:
    """Input scale x weight scale / output scale is below 2**30 (INT16: 2**14)."""
    source, weights, output = view.input(), view.input(FILTER_POSITION), view.output()
    if not source.dtype.is_integer:
        return None
    largest = max(channel_multipliers(source, weights, output))
    return None if largest < 2.0 ** (30 if source.dtype is DType.INT8 else 14) else f"{largest:g}"


def moderate_bias(view: OperatorView) -> str | None:
    """INT64 biases are below 2**46: the reference rescales sums of 48 bits."""
    return oversized(view.optional(BIAS_POSITION))


def oversized(bias: Tensor | None) -> str | None:
    """What is wrong with a constant bias whose sums exceed 48 bits."""
    if bias is None or bias.dtype is not DType.INT64:
        return None
    largest = max(-int(bias.constant.min(initial=0)), int(bias.constant.max(initial=0)))
    return None if largest < LARGEST_BIAS else f"'{bias.name}' reaches {largest}"


def windows_see_input(view: OperatorView, window: Window) -> str | None:
    """What is wrong where a window lies in the padding altogether, which only layers of int8 weights may have."""
    narrow = view.input().dtype is DType.INT8 and view.input(FILTER_POSITION).dtype is not DType.INT16
    if narrow or every_window_sees_input(window):
        return None
    return "a window that sees nothing but padding"


def clamping_activation(view: OperatorView) -> str | None:
    """The fused activation is NONE, RELU, RELU_N1_TO_1 or RELU6."""
    activation: Activation = view.attributes.activation
    return None if activation.is_clamp else activation.name
