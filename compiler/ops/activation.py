# SPDX-License-Identifier: Apache-2.0
"""Fused activations and the ranges they clamp to.

Source: TensorFlow Lite, kernels/kernel_util.cc (CalculateActivationRangeQuantized, CalculateActivationRange).
"""

from __future__ import annotations

import math
from enum import Enum

import numpy as np

from compiler.graph import DType, Tensor

INTEGER_RANGE = {
    DType.INT8: (-128, 127),
    DType.UINT8: (0, 255),
    DType.INT16: (-32768, 32767),
    DType.INT32: (-(1 << 31), (1 << 31) - 1),
}


class Activation(Enum):
    """A fused activation; the value is TFLite's ActivationFunctionType."""

    NONE = 0
    RELU = 1
    RELU_N1_TO_1 = 2
    RELU6 = 3
    TANH = 4
    SIGN_BIT = 5

    @property
    def is_clamp(self) -> bool:
        """True where the activation is nothing but a clamp of its input."""
        return self not in (Activation.TANH, Activation.SIGN_BIT)


FLOAT_RANGE = {
    Activation.NONE: (-math.inf, math.inf),
    Activation.RELU: (0.0, math.inf),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
    Activation.RELU6: (0.0, 6.0),
}


def float_range(activation: Activation) -> tuple[float, float]:
    """The clamp of a float output: (minimum, maximum), infinite where it has none."""
    return FLOAT_RANGE[activation]


def quantized_range(activation: Activation, output: Tensor) -> tuple[int, int]:
    """The clamp of a quantised output: (minimum, maximum) as values of its type (int8, uint8 or int16)."""
    lowest, highest = INTEGER_RANGE[output.dtype]
    minimum, maximum = FLOAT_RANGE[activation]
    if minimum != -math.inf:
        lowest = max(lowest, quantize_bound(minimum, output))
    if maximum != math.inf:
        highest = min(highest, quantize_bound(maximum, output))
    return lowest, highest


def quantize_bound(real: float, tensor: Tensor) -> int:
    """A clamp's bound in the units of `tensor`: a float32 division, rounded half away from zero."""
    with np.errstate(over="ignore"):
        quotient = float(np.float32(real) / np.float32(tensor.scale))
    quotient = min(max(quotient, -float(1 << 31)), float(1 << 31))
    return tensor.zero_point + round_half_away(quotient)


def round_half_away(real: float) -> int:
    """Rounds to the nearest integer, ties away from zero (C's round)."""
    return int(math.copysign(math.floor(abs(real) + 0.5), real)) if abs(real) < 1 << 52 else int(real)
