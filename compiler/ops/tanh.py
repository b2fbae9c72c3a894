# SPDX-License-Identifier: Apache-2.0
"""TANH: tanh(x). Bytes by a table of 256, int16 by the reference's interpolation, float by an own function.

Source: TensorFlow Lite Micro, kernels/tanh.cc; uint8: TensorFlow Lite, kernels/activations.cc.
"""

from __future__ import annotations

import numpy as np

from compiler import fixed_point, float_numerics
from compiler.graph import DType
from compiler.kernels.floats.functions import FloatFunction
from compiler.ops.definition import OperatorView
from compiler.ops.sigmoids import Sigmoid

TANH = Sigmoid(
    name="TANH",
    is_tanh=True,
    plain_shifts=(0, 1),
    fixed=fixed_point.tanh,
    kept_bits=7,
    offset=0,
    scales={DType.INT8: 1 / 128, DType.INT16: 1 / 32768},
    real=np.tanh,
    float_values=float_numerics.tanh,
    float_function=FloatFunction.TANH,
)


def output_range(view: OperatorView) -> str | None:
    """A quantised output has the whole range -1..1: INT8 1/128 at zero point 0, INT16 1/32768 at 0."""
    return TANH.wrong_range(view)


DEFINITIONS = (TANH.definition(output_range),)
