# SPDX-License-Identifier: Apache-2.0
"""RSQRT: 1 / sqrt(x). int8 by the reference's fixed-point steps, int16 by an interpolated table.

Source: TensorFlow Lite Micro, kernels/elementwise.cc (RsqrtEvalQuantized); int16: TensorFlow Lite,
kernels/elementwise.cc.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from compiler.codegen.builder import Function, Value
from compiler.fixed_point import inverse_square_root
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels import float_powers
from compiler.numerics import multiply_by_quantized_multiplier, quantize_multiplier
from compiler.ops.activation import INTEGER_RANGE
from compiler.ops.definition import Array, OperatorView
from compiler.ops.elementwise import byte_table, centred, clipped, computed, definition
from compiler.ops.tables import looked_up

SHIFT = 20
"""By how much the reference keeps the root shifted left before the output's scale."""


def values(view: OperatorView, inputs: Sequence[Array]) -> Array:
    """Inputs at the zero point, and below it, which the reference refuses at run time, give the largest output."""
    source, output = view.input(), view.output()
    value = centred(view, inputs)
    multipliers, shifts = inverse_square_root(np.maximum(value, 1))
    root = multiply_by_quantized_multiplier(np.ones_like(value), multipliers, shifts + SHIFT)
    multiplier, shift = quantize_multiplier(1.0 / float(np.sqrt(np.float32(source.scale)) * np.float32(output.scale)))
    scaled = multiply_by_quantized_multiplier(root, multiplier, shift - SHIFT) + output.zero_point
    return clipped(np.where(value > 0, scaled, INTEGER_RANGE[output.dtype][1]), output)


def _real(view: OperatorView, x: float) -> float:
    highest = float(np.float32(32767) * np.float32(view.output().scale))
    return 1.0 / float(np.float32(math.sqrt(x))) if x > 0 else highest


def _float(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    return f.fdiv(f.float(1.0), float_powers.sqrt(f, operands[0]))


DEFINITIONS = (
    definition(
        "RSQRT",
        {
            DType.INT8: byte_table(values),
            **looked_up(_real, DType.INT16),
            DType.FLOAT32: computed("rsqrt", _float),
        },
    ),
)
