# SPDX-License-Identifier: Apache-2.0
"""RSQRT: 1 / sqrt(x). int8 and int16 by the reference's fixed-point steps.

Source: TensorFlow Lite Micro, kernels/elementwise.cc (RsqrtEvalQuantized).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from compiler.codegen.builder import Function, Value
from compiler.codegen.requantize import Multiplier, clamp, split_shift
from compiler.codegen.requantize import multiply_by_quantized_multiplier as multiply_in_ir
from compiler.fixed_point import inverse_square_root
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.floats import powers as float_powers
from compiler.kernels.kernel import Argument
from compiler.kernels.portable import fixed_point_ir
from compiler.kernels.portable.formula import Formula
from compiler.kernels.portable.rescale import saturate_30
from compiler.numerics import multiply_by_quantized_multiplier, quantize_multiplier
from compiler.ops.activation import INTEGER_RANGE
from compiler.ops.definition import Array, OperatorView
from compiler.ops.elementwise import QUANTIZED, bound, byte_table, centred, clipped, computed, definition

SHIFT = 20
"""By how much the reference keeps the root shifted left before the output's scale."""


def output_multiplier(view: OperatorView) -> tuple[int, int]:
    """The quantised multiplier from roots of input steps to output steps."""
    return quantize_multiplier(1.0 / (math.sqrt(view.input().scale) * view.output().scale))


def moderate_ratio(view: OperatorView) -> str | None:
    """The root of a quantised input's scale times the output scale is between 2**-20 and 2**20."""
    if view.input().dtype not in QUANTIZED:
        return None
    _, shift = output_multiplier(view)
    return None if abs(shift) <= SHIFT else f"shift {shift}"


def values(view: OperatorView, inputs: Sequence[Array]) -> Array:
    """Inputs at the zero point, and below it, which the reference refuses at run time, give the largest output."""
    output = view.output()
    value = centred(view, inputs)
    multipliers, shifts = inverse_square_root(np.maximum(value, 1))
    root = multiply_by_quantized_multiplier(np.ones_like(value), multipliers, shifts + SHIFT)
    multiplier, shift = output_multiplier(view)
    scaled = multiply_by_quantized_multiplier(root, multiplier, shift - SHIFT) + output.zero_point
    return clipped(np.where(value > 0, scaled, INTEGER_RANGE[output.dtype][1]), output)


def _int16(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    multiplier, left, right = parameters
    inverse, shift = fixed_point_ir.inverse_square_root(f, isa, f.maximum(operands[0], 1))
    # A root of a value from 1 on needs no shift beyond the one that keeps it.
    root = multiply_in_ir(f, isa, f.const(1), Multiplier(inverse, f.add(shift, SHIFT), 0))
    scaled = clamp(f, isa, saturate_30(f, multiply_in_ir(f, isa, root, Multiplier(multiplier, left, right))), 0, 32767)
    return f.select(f.compare(">", operands[0], 0), scaled, 32767)


def _bind(view: OperatorView) -> tuple[Formula, Sequence[Argument]]:
    multiplier, shift = output_multiplier(view)
    return Formula("rsqrt", _int16, ("multiplier", "left", "right"), lanes=1), (multiplier, *split_shift(shift - SHIFT))


def _float(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    return f.fdiv(f.float(1.0), float_powers.sqrt(f, isa, operands[0]))


DEFINITIONS = (
    definition(
        "RSQRT",
        {
            DType.INT8: byte_table(values),
            DType.INT16: bound(values, _bind),
            DType.FLOAT32: computed("rsqrt", _float),
        },
        moderate_ratio,
    ),
)
