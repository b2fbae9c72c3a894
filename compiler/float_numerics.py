# SPDX-License-Identifier: Apache-2.0
"""The float kernels' arithmetic in NumPy: every sum in the reference's order, rounded to float32 at each step, and the
same exponential, so that kernels are checked to the bit.

Source: TensorFlow Lite, kernels/internal/reference/{conv,depthwiseconv_float,fully_connected,softmax,logistic,tanh}.h.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from compiler.kernels.floats.functions import (
    EXP_POLYNOMIAL,
    LARGEST,
    LN_2_HIGH,
    LN_2_LOW,
    LOG2_E_HIGH,
    LOG2_E_LOW,
    LOG_POLYNOMIAL,
    LOGISTIC_HIGH,
    LOGISTIC_LOW,
    SQRT_HALF_BITS,
    TANH_POLYNOMIAL,
    TANH_SMALL,
)
from compiler.kernels.problems import FloatLayer
from compiler.numerics import windows

FloatArray = NDArray[np.float32]


def clamp(values: FloatArray, minimum: float, maximum: float) -> FloatArray:
    """min(max(x, minimum), maximum); NaN passes, infinities become the largest finite value where unbounded."""
    low, high = np.float32(max(minimum, -LARGEST)), np.float32(min(maximum, LARGEST))
    raised = np.where(values < low, low, values)
    return np.where(raised > high, high, raised).astype(np.float32)


def conv_2d(layer: FloatLayer, x: FloatArray) -> FloatArray:
    """x [H, W, C] -> [output_height, output_width, output_channels]; weights may be grouped."""
    weights = layer.weights
    outputs, height, width, depth = weights.shape
    patches = windows(x, layer.window, 0.0, np.float32)
    group = np.arange(outputs) // (outputs // (layer.window.input_channels // depth)) * depth
    total = np.zeros((*patches.shape[:2], outputs), np.float32)
    with np.errstate(all="ignore"):
        for i, j, c in np.ndindex(height, width, depth):
            total += patches[:, :, i, j, group + c] * weights[:, i, j, c]
        return clamp(total + layer.bias, layer.minimum, layer.maximum)


def depthwise_conv_2d(layer: FloatLayer, x: FloatArray) -> FloatArray:
    """x [H, W, C] -> [output_height, output_width, C * multiplier]."""
    multiplier = layer.window.output_channels // layer.window.input_channels
    patches = np.repeat(windows(x, layer.window, 0.0, np.float32), multiplier, axis=-1)
    total = np.zeros((*patches.shape[:2], patches.shape[-1]), np.float32)
    with np.errstate(all="ignore"):
        for i, j in np.ndindex(*layer.weights.shape[:2]):
            total += patches[:, :, i, j] * layer.weights[i, j]
        return clamp(total + layer.bias, layer.minimum, layer.maximum)


def fully_connected(layer: FloatLayer, x: FloatArray) -> FloatArray:
    """x [batches, depth] -> [batches, outputs]."""
    total = np.zeros((len(x), len(layer.weights)), np.float32)
    with np.errstate(all="ignore"):
        for d in range(x.shape[1]):
            total += x[:, d : d + 1] * layer.weights[:, d]
        return clamp(total + layer.bias, layer.minimum, layer.maximum)


def softmax(x: FloatArray, beta: float) -> FloatArray:
    """x [rows, depth]: exp(beta * (x - row maximum)) divided by the row's sum, summed in order."""
    with np.errstate(all="ignore"):
        largest = np.fmax.reduce(x, axis=1, keepdims=True, initial=np.float32(-LARGEST))
        powers = exp((x - largest) * np.float32(beta))
        total = np.zeros((len(x), 1), np.float32)
        for c in range(x.shape[1]):
            total += powers[:, c : c + 1]
        return powers / total


def log_softmax(x: FloatArray) -> FloatArray:
    """x [rows, depth]: (x - row maximum) - log(sum of exp(x - row maximum)), summed in order."""
    with np.errstate(all="ignore"):
        shifted = x - np.fmax.reduce(x, axis=1, keepdims=True, initial=np.float32(-LARGEST))
        powers = exp(shifted)
        total = np.zeros((len(x), 1), np.float32)
        for c in range(x.shape[1]):
            total += powers[:, c : c + 1]
        return shifted - log(total)


def exp(x: FloatArray) -> FloatArray:
    """exp(x) within 0.52 units in the last place; the integer arithmetic of `kernels.float_functions.exp`."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.int64)
    negative, magnitude = bits >> 31 == 1, bits & 0x7FFFFFFF
    exponent, mantissa = magnitude >> 23, (bits & 0x7FFFFF) | 0x800000
    integer_bits = np.where(exponent >= 128, 9, 3)
    shift = exponent - 117 - integer_bits
    fixed = (mantissa << np.clip(shift, 0, 7)) >> np.clip(-shift, 0, 31)
    wide = 2 * (fixed * LOG2_E_HIGH + ((fixed * LOG2_E_LOW) >> 32))
    wide = np.where(negative, -wide, wide)
    power = wide >> (64 - integer_bits)
    centred = ((wide >> (32 - integer_bits)) & 0xFFFFFFFF) - (1 << 31)
    total = np.full(bits.shape, EXP_POLYNOMIAL[-1], np.int64)
    for coefficient in reversed(EXP_POLYNOMIAL[:-1]):
        total = ((total * centred) >> 32) + coefficient
    denormal = np.clip(-126 - power, 0, 24)
    result = ((power + denormal + 126) << 23) + ((total + (64 << denormal)) >> (denormal + 7))
    result = np.where(power < -150, 0, np.where(power > 127, 0x7F800000, result))
    result = np.where(exponent >= 134, np.where(negative, 0, 0x7F800000), result)
    result = np.where(magnitude > 0x7F800000, 0x7FC00000, result)
    return result.astype(np.uint32).view(np.float32)


def logistic(x: FloatArray) -> FloatArray:
    """1 / (1 + exp(-x)); exp(x) below -9 and 1 above 16.6, as the reference."""
    one = np.float32(1)
    low, high = x < np.float32(LOGISTIC_LOW), x > np.float32(LOGISTIC_HIGH)
    power = exp(np.where(low, x, -x))
    with np.errstate(all="ignore"):
        return np.where(low, power, np.where(high, one, one / (one + power))).astype(np.float32)


def tanh(x: FloatArray) -> FloatArray:
    """tanh(x) within 2 units in the last place; the arithmetic of `kernels.float_functions.tanh`."""
    one, two = np.float32(1), np.float32(2)
    with np.errstate(all="ignore"):
        magnitude, square = np.abs(x), x * x
        total = np.full(x.shape, TANH_POLYNOMIAL[-1], np.float32)
        for coefficient in reversed(TANH_POLYNOMIAL[1:-1]):
            total = total * square + np.float32(coefficient)
        small = magnitude + magnitude * (total * square)
        large = one - two / (exp(magnitude + magnitude) + one)
        return np.copysign(np.where(magnitude < np.float32(TANH_SMALL), small, large), x).astype(np.float32)


def elu(x: FloatArray) -> FloatArray:
    """x, or exp(x) - 1 below 0."""
    return np.where(np.signbit(x), exp(x) - np.float32(1), x).astype(np.float32)


def hard_swish(x: FloatArray) -> FloatArray:
    """x * min(max(x + 3, 0), 6) / 6."""
    with np.errstate(all="ignore"):
        return np.asarray(x * clamp(x + np.float32(3), 0.0, 6.0) / np.float32(6), np.float32)


def log(x: FloatArray) -> FloatArray:
    """ln(x) within 2 units in the last place; the arithmetic of `kernels.float_functions.log`."""
    bits = np.ascontiguousarray(x, np.float32).view(np.int32)
    above = bits - np.int32(SQRT_HALF_BITS)
    mantissa = ((above & 0x7FFFFF) + np.int32(SQRT_HALF_BITS)).view(np.float32)
    one, scale = np.float32(1), (above >> 23).astype(np.float32)
    s = (mantissa - one) / (mantissa + one)
    square = s * s
    total = np.full(bits.shape, LOG_POLYNOMIAL[-1], np.float32)
    for coefficient in reversed(LOG_POLYNOMIAL[:-1]):
        total = total * square + np.float32(coefficient)
    small = (s * square) * total + scale * np.float32(LN_2_LOW)
    result = scale * np.float32(LN_2_HIGH) + ((s + s) + small)
    result = np.where(bits < 1 << 23, np.float32(-np.inf), result)
    result = np.where(bits >= 0x7F800000, x, result)
    return np.where(bits.view(np.uint32) > 1 << 31, np.float32(np.nan), result).astype(np.float32)
