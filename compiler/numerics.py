# SPDX-License-Identifier: Apache-2.0
"""The reference's integer arithmetic in NumPy: quantised multipliers, double rounding, accumulators of the layers.

Source: TensorFlow Lite, kernels/internal/quantization_util.cc (QuantizeMultiplier) and common.h
(MultiplyByQuantizedMultiplier, double rounding; the int64 form for int16x8), gemmlowp fixedpoint.h.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.kernels.problems import Conv2D, DepthwiseConv2D, FullyConnected, Requantization, Window

Int64Array = NDArray[np.int64]


def quantize_multiplier(real: float) -> tuple[int, int]:
    """A positive real multiplier as (Q31 multiplier, shift): real = multiplier * 2**(shift - 31), shift left if > 0."""
    if real == 0.0:
        return 0, 0
    mantissa, shift = math.frexp(real)
    # TFLite rounds half away from zero; round() would round half to even.
    multiplier = math.floor(mantissa * (1 << 31) + 0.5)
    if multiplier == 1 << 31:
        multiplier //= 2
        shift += 1
    if shift < -31:
        return 0, 0
    return multiplier, shift


def multiply_by_quantized_multiplier(
    values: NDArray[Any], multipliers: NDArray[Any] | int, shifts: NDArray[Any] | int
) -> Int64Array:
    """Double rounding: SaturatingRoundingDoublingHighMul, then RoundingDivideByPOT. Broadcasts; int32 semantics."""
    multipliers, shifts = np.asarray(multipliers, np.int64), np.asarray(shifts, np.int64)
    left, right = np.maximum(shifts, 0), np.maximum(-shifts, 0)
    x = _wrap_int32(values.astype(np.int64) << left)
    product = x * multipliers
    nudged = product + np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    high = np.where(nudged >= 0, nudged >> 31, -((-nudged) >> 31))
    high = np.where((x == -(1 << 31)) & (multipliers == -(1 << 31)), (1 << 31) - 1, high)
    mask = (np.int64(1) << right) - 1
    remainder, threshold = high & mask, (mask >> 1) + (high < 0)
    return np.asarray((high >> right) + (remainder > threshold), np.int64)


def multiply_by_quantized_multiplier_int64(
    values: NDArray[Any], multipliers: NDArray[Any] | int, shifts: NDArray[Any] | int
) -> Int64Array:
    """The 64-bit form (int16x8 with int64 bias): the multiplier is reduced to 16 bits, one rounding."""
    multipliers, shifts = np.asarray(multipliers, np.int64), np.asarray(shifts, np.int64)
    reduced = np.where(multipliers < 0x7FFF0000, (multipliers + (1 << 15)) >> 16, 0x7FFF)
    total = 15 - shifts
    return np.asarray((values.astype(np.int64) * reduced + (np.int64(1) << (total - 1))) >> total, np.int64)


def round_half_away_divide(values: NDArray[Any], divisors: NDArray[Any] | int) -> Int64Array:
    """values / divisors (positive) rounded to the nearest integer, ties away from zero, as int64."""
    divisors = np.asarray(divisors, np.int64)
    magnitudes = (np.abs(values.astype(np.int64)) + divisors // 2) // divisors
    return np.asarray(np.where(values < 0, -magnitudes, magnitudes), np.int64)


def requantize(accumulators: NDArray[Any], r: Requantization, wide: bool = False) -> Int64Array:
    """Accumulators (channels last) to clamped quantised values, as int64."""
    scale = multiply_by_quantized_multiplier_int64 if wide else multiply_by_quantized_multiplier
    return np.clip(scale(accumulators, r.multipliers, r.shifts) + r.zero_point, r.minimum, r.maximum)


def windows(x: NDArray[Any], w: Window, zero_point: float, dtype: Any = np.int64) -> NDArray[Any]:
    """The patches of one image: x [H, W, C] -> [output_height, output_width, kernel_height, kernel_width, C],
    zero point subtracted, padding zero."""
    padded = np.zeros(
        (w.pad_top + w.input_height + w.pad_bottom, w.pad_left + w.input_width + w.pad_right, w.input_channels), dtype
    )
    inner = padded[w.pad_top : w.pad_top + w.input_height, w.pad_left : w.pad_left + w.input_width]
    inner[...] = x.astype(dtype) - zero_point
    rows = np.arange(w.output_height)[:, None] * w.stride_height + np.arange(w.kernel_height) * w.dilation_height
    columns = np.arange(w.output_width)[:, None] * w.stride_width + np.arange(w.kernel_width) * w.dilation_width
    patches: NDArray[Any] = padded[rows[:, None, :, None], columns[None, :, None, :]]
    return patches


def conv_2d(layer: Conv2D, x: NDArray[Any]) -> Int64Array:
    """The reference output of a convolution: x [H, W, C] -> [output_height, output_width, output_channels]."""
    patches = windows(x, layer.window, layer.input_zero_point)
    accumulators = np.einsum("yxijc,oijc->yxo", patches, layer.weights.astype(np.int64), optimize=True) + layer.bias
    return requantize(accumulators, layer.requantization, layer.wide)


def depthwise_conv_2d(layer: DepthwiseConv2D, x: NDArray[Any]) -> Int64Array:
    """The reference output of a depthwise convolution: x [H, W, C] -> [output_height, output_width, C * multiplier]."""
    patches = np.repeat(windows(x, layer.window, layer.input_zero_point), layer.multiplier, axis=-1)
    accumulators = np.einsum("yxijc,ijc->yxc", patches, layer.weights.astype(np.int64), optimize=True) + layer.bias
    return requantize(accumulators, layer.requantization, layer.wide)


def fully_connected(layer: FullyConnected, x: NDArray[Any]) -> Int64Array:
    """The reference output of a fully connected layer: x [batches, depth] -> [batches, outputs]."""
    weights = layer.weights.astype(np.int64) - layer.filter_zero_point
    accumulators = (x.astype(np.int64) - layer.input_zero_point) @ weights.T + layer.bias
    return requantize(accumulators, layer.requantization, layer.wide)


def _wrap_int32(values: Int64Array) -> Int64Array:
    return ((values + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)
