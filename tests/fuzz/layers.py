# SPDX-License-Identifier: Apache-2.0
"""Convolutions, fully connected layers and pools by chance."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.fuzz.draft import LARGEST, Draft, clamp, extent
from tests.tflite_files import TYPES, FileTensor

WEIGHTS = ("int8", "int16", "uint8", "float32")
"""Activations of layers with weights."""
SPREAD = {"int8": (5000, 73, 60), "uint8": (5000, 73, 60), "int16": (500000, 18000, 15000)}
"""By activations: the largest bias, the root mean square of the inputs, and what that of the outputs shall be."""


def conv_2d(draft: Draft, index: int, x: FileTensor) -> bool:
    if len(x.shape) != 4 or x.dtype not in WEIGHTS:
        return False
    batches, height, width, channels = x.shape
    outputs, kernel = draft.integer(1, 9), (draft.integer(1, 3), draft.integer(1, 3))
    stride, dilation = _steps(draft)
    same = draft.chance(0.6)
    sizes = _sizes((height, width), kernel, stride, dilation, same)
    if min(sizes) < 1 or batches * sizes[0] * sizes[1] * outputs > LARGEST:
        return False
    weights, bias, scale = weighted(draft, x, (outputs, *kernel, channels), 0, index)
    y = draft.add((batches, *sizes, outputs), x.dtype, scale=scale)
    return draft.operator(
        "CONV_2D", (index, weights, bias), (y,), "Conv2DOptions", Padding=0 if same else 1, StrideH=stride[0],
        StrideW=stride[1], DilationHFactor=dilation[0], DilationWFactor=dilation[1],
        FusedActivationFunction=clamp(draft), **_bias_type(draft, x, bias),
    )  # fmt: skip


def depthwise_conv_2d(draft: Draft, index: int, x: FileTensor) -> bool:
    if len(x.shape) != 4 or x.dtype not in WEIGHTS:
        return False
    batches, height, width, channels = x.shape
    multiplier, kernel = draft.choice(1, 1, 1, 2, 3), (draft.integer(1, 4), draft.integer(1, 4))
    stride, dilation = _steps(draft)
    same = draft.chance(0.6)
    sizes = _sizes((height, width), kernel, stride, dilation, same)
    if min(sizes) < 1 or batches * sizes[0] * sizes[1] * channels * multiplier > LARGEST:
        return False
    weights, bias, scale = weighted(draft, x, (1, *kernel, channels * multiplier), 3, index)
    y = draft.add((batches, *sizes, channels * multiplier), x.dtype, scale=scale)
    return draft.operator(
        "DEPTHWISE_CONV_2D", (index, weights, bias), (y,), "DepthwiseConv2DOptions", Padding=0 if same else 1,
        StrideH=stride[0], StrideW=stride[1], DilationHFactor=dilation[0], DilationWFactor=dilation[1],
        DepthMultiplier=multiplier, FusedActivationFunction=clamp(draft),
    )  # fmt: skip


def transpose_conv(draft: Draft, index: int, x: FileTensor) -> bool:
    if len(x.shape) != 4 or x.dtype not in ("int8", "int16", "float32") or x.shape[0] != 1:
        return False
    _, height, width, channels = x.shape
    outputs, kernel, stride = draft.integer(1, 5), draft.integer(1, 4), draft.integer(1, 3)
    same = draft.chance(0.5)
    sizes = [n * stride if same else (n - 1) * stride + kernel for n in (height, width)]
    if sizes[0] * sizes[1] * outputs > LARGEST or kernel < stride:
        return False
    weights, bias, scale = weighted(draft, x, (outputs, kernel, kernel, channels), 0)
    y = draft.add((1, *sizes, outputs), x.dtype, scale=scale)
    shape = draft.ints(1, *sizes, outputs)
    return draft.operator(
        "TRANSPOSE_CONV", (shape, weights, index, bias), (y,), "TransposeConvOptions", Padding=0 if same else 1,
        StrideH=stride, StrideW=stride, **_bias_type(draft, x, bias),
    )  # fmt: skip


def fully_connected(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in WEIGHTS or len(x.shape) < 2:
        return False
    depth, outputs = x.shape[-1], draft.integer(1, 17)
    weights, bias, scale = weighted(draft, x, (outputs, depth), None, index)
    rows = int(np.prod(x.shape[:-1]))
    y = draft.add((rows, outputs), x.dtype, scale=scale)
    return draft.operator(
        "FULLY_CONNECTED", (index, weights, bias), (y,), "FullyConnectedOptions", FusedActivationFunction=clamp(draft),
        AsymmetricQuantizeInputs=draft.chance(0.5), **_bias_type(draft, x, bias),
    )  # fmt: skip


def batch_matmul(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in ("int8", "float32") or len(x.shape) < 2:
        return False
    columns = draft.integer(1, 6)
    other = draft.values((*x.shape[:-2], x.shape[-1], columns), x.dtype)
    scale = draft.scale() if x.dtype == "int8" else 0.0
    y = draft.add((*x.shape[:-1], columns), x.dtype, scale=x.scale * scale * 60 * sqrt(x.shape[-1]))
    return draft.operator("BATCH_MATMUL", (index, draft.constant(other, scale)), (y,), "BatchMatMulOptions")


def pool(draft: Draft, index: int, x: FileTensor) -> bool:
    if len(x.shape) != 4 or x.dtype not in WEIGHTS:
        return False
    batches, height, width, channels = x.shape
    kernel, stride = (draft.integer(1, 4), draft.integer(1, 4)), (draft.integer(1, 3), draft.integer(1, 3))
    same = draft.chance(0.5)
    sizes = _sizes((height, width), kernel, stride, (1, 1), same)
    if min(sizes) < 1:
        return False
    y = draft.add((batches, *sizes, channels), x.dtype, x)
    kinds = ("AVERAGE_POOL_2D", "MAX_POOL_2D", *(["L2_POOL_2D"] if x.dtype == "float32" else []))
    return draft.operator(
        draft.choice(*kinds), (index,), (y,), "Pool2DOptions", Padding=0 if same else 1,
        FilterHeight=kernel[0], FilterWidth=kernel[1], StrideH=stride[0], StrideW=stride[1],
        FusedActivationFunction=clamp(draft),
    )  # fmt: skip


def _steps(draft: Draft) -> tuple[tuple[int, int], tuple[int, int]]:
    """Strides, or dilations: TensorFlow does not allow both."""
    if draft.chance(0.2):
        return (1, 1), (draft.integer(1, 2), draft.integer(1, 3))
    return (draft.choice(1, 1, 2, 3), draft.choice(1, 1, 2)), (1, 1)


def _sizes(
    sizes: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int], same: bool
) -> tuple[int, int]:
    height, width = (extent(*axis, same) for axis in zip(sizes, kernel, stride, dilation, strict=True))
    return height, width


def weighted(
    draft: Draft, x: FileTensor, shape: tuple[int, ...], axis: int | None, index: int = -1
) -> tuple[int, int, float]:
    """Weights, a bias or none (-1), and a scale that suits the sums. `axis` None: one scale for all channels. `index`
    is the layer's input. Without it the weights have 8 bits. Floats meet int8 weights as inputs of the model alone:
    behind an operator, values that differ in their last place would be quantised to another step."""
    outputs = shape[axis if axis is not None else 0]
    depth = int(np.prod(shape)) // outputs
    hybrid = x.dtype == "float32" and index in draft.inputs and draft.chance(0.5)
    if x.dtype == "float32" and not hybrid:
        weights = draft.constant(draft.random.normal(0, 1 / sqrt(depth), shape).astype(np.float32))
        return weights, _float_bias(draft, outputs), 0.0
    if x.dtype == "uint8":
        return _legacy(draft, x, shape, outputs, depth)
    dtype = draft.choice("int8", "int8", "int8", "int4") if index >= 0 and x.dtype != "int16" else "int8"
    largest = 7 if dtype == "int4" else 127
    data: NDArray[Any] = draft.random.integers(-largest, largest + 1, shape).astype(np.int8)
    count = outputs if axis is not None and draft.chance(0.8) else 1
    scales = tuple(draft.scale(1e-3, 2e-2) for _ in range(count))
    weights = draft.constant(data, scales=scales, axis=axis if axis is not None and count > 1 else 0, dtype=dtype)
    if hybrid:
        return weights, _float_bias(draft, outputs), 0.0
    spread, typical, wanted = SPREAD[x.dtype]
    scale = float(np.mean(scales)) * x.scale * 0.58 * largest * typical * sqrt(depth) / wanted
    if draft.chance(0.1):
        return weights, -1, scale
    bias_type = draft.choice(np.int64, np.int64, np.int32) if x.dtype == "int16" else np.int32
    biases = draft.random.integers(-spread, spread + 1, outputs).astype(bias_type)
    bias_scales = tuple(float(np.float32(np.float32(x.scale) * np.float32(s))) for s in scales)
    return weights, draft.constant(biases, scales=bias_scales), scale


def _bias_type(draft: Draft, x: FileTensor, bias: int) -> dict[str, int]:
    """The option by which LiteRT reads the bias of int16 layers."""
    return {"QuantizedBiasType": TYPES[draft.tensors[bias].dtype]} if x.dtype == "int16" and bias >= 0 else {}


def _float_bias(draft: Draft, outputs: int) -> int:
    return draft.constant(draft.random.normal(0, 1, outputs).astype(np.float32)) if draft.chance(0.7) else -1


def _legacy(draft: Draft, x: FileTensor, shape: tuple[int, ...], outputs: int, depth: int) -> tuple[int, int, float]:
    """uint8 weights with a zero point, and their bias."""
    by, spread = draft.scale(1e-3, 2e-2), SPREAD[x.dtype][0]
    weights = draft.constant(draft.values(shape, "uint8"), by, zero_point=draft.integer(1, 254))
    biases = draft.random.integers(-spread, spread + 1, outputs).astype(np.int32)
    bias = draft.constant(biases, float(np.float32(np.float32(x.scale) * np.float32(by))))
    return weights, bias, by * x.scale * 90 * sqrt(depth)


STEPS = {
    "conv_2d": conv_2d,
    "depthwise_conv_2d": depthwise_conv_2d,
    "transpose_conv": transpose_conv,
    "fully_connected": fully_connected,
    "batch_matmul": batch_matmul,
    "pool": pool,
}
