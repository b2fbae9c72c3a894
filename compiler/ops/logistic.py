# SPDX-License-Identifier: Apache-2.0
"""LOGISTIC: 1 / (1 + exp(-x)). Bytes by a table of 256, int16 by the reference's interpolation, float by a function.

Source: TensorFlow Lite Micro, kernels/logistic_common.cc; uint8: TensorFlow Lite, kernels/activations.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler import fixed_point, float_numerics
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.floats.functions import FloatFunction
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable import maps
from compiler.ops import byte_tables, sigmoids
from compiler.ops.constraints import (
    FLOAT,
    Q8,
    Q16,
    dtypes,
    inputs_between,
    int16_zero_points_are_zero,
    output_dtype_as_input,
    quantized_per_tensor,
    same_shape,
)
from compiler.ops.definition import Array, OperatorDefinition, OperatorView, no_options

PLAIN_SHIFTS = (0,)
"""The left shifts of power-of-two int16 scales that the reference treats without a multiplier."""


def output_range(view: OperatorView) -> str | None:
    """A quantised output has the whole range 0..1: INT8 1/256 at zero point -128, INT16 1/32768 at 0."""
    return sigmoids.output_range(
        view, {DType.INT8: -128, DType.INT16: 0}, {DType.INT8: 1 / 256, DType.INT16: 1 / 32768}
    )


def byte_table(view: OperatorView) -> Array:
    """The outputs for all 256 inputs, in ascending order of the input."""
    source, output = view.input(), view.output()
    if source.dtype is Q8:
        return sigmoids.fixed_point_bytes(source, fixed_point.logistic, 8, -128)
    return byte_tables.through_floats(source, output, lambda x: np.float32(1) / (np.float32(1) + np.exp(-x)))


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    (x,) = inputs
    assert x is not None
    source = view.input()
    if source.dtype is FLOAT:
        return [float_numerics.logistic(x)]
    if source.dtype is Q16:
        scaling = sigmoids.int16_scaling(source, PLAIN_SHIFTS)
        return [sigmoids.int16_values(x, *scaling, is_tanh=False).astype(np.int16)]
    return [byte_tables.apply(byte_table(view), x)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    source = view.input()
    if source.dtype is FLOAT:
        return maps.float_map(isa, source.elements, FloatFunction.LOGISTIC)
    if source.dtype is Q16:
        scaling = sigmoids.int16_scaling(source, PLAIN_SHIFTS)
        return maps.sigmoid_map(isa, source.elements, *scaling, is_tanh=False)
    return byte_tables.lower(isa, source, byte_table(view))


DEFINITIONS = (
    OperatorDefinition(
        "LOGISTIC",
        no_options,
        (
            inputs_between(1, 1),
            dtypes(0, Q8, DType.UINT8, Q16, FLOAT),
            output_dtype_as_input(),
            same_shape,
            quantized_per_tensor(0),
            int16_zero_points_are_zero,
            output_range,
        ),
        reference,
        lower,
    ),
)
