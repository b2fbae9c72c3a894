# SPDX-License-Identifier: Apache-2.0
"""LOGISTIC: 1 / (1 + exp(-x)). Bytes by a table of 256, int16 by the reference's interpolation, float by a function.

Source: TensorFlow Lite Micro, kernels/logistic_common.cc; uint8: TensorFlow Lite, kernels/activations.cc.
"""

from __future__ import annotations

import numpy as np

from compiler import fixed_point, float_numerics
from compiler.graph import DType
from compiler.kernels.floats.functions import FloatFunction
from compiler.ops.definition import OperatorView
from compiler.ops.sigmoids import Sigmoid


def real(x: np.float32) -> np.float32:
    return np.float32(np.float32(1) / (np.float32(1) + np.exp(-x)))


LOGISTIC = Sigmoid(
    name="LOGISTIC",
    is_tanh=False,
    plain_shifts=(0,),
    fixed=fixed_point.logistic,
    kept_bits=8,
    offset=-128,
    scales={DType.INT8: 1 / 256, DType.INT16: 1 / 32768},
    real=real,
    float_values=float_numerics.logistic,
    float_function=FloatFunction.LOGISTIC,
)


def output_range(view: OperatorView) -> str | None:
    """A quantised output has the whole range 0..1: INT8 1/256 at zero point -128, INT16 1/32768 at 0."""
    return LOGISTIC.wrong_range(view)


DEFINITIONS = (LOGISTIC.definition(output_range),)
