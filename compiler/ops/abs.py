# SPDX-License-Identifier: Apache-2.0
"""ABS: the magnitude. int8 by a table, int16 by a formula, each with the change of scale.

Source: TensorFlow Lite Micro, kernels/elementwise.cc (AbsEvalQuantized).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.codegen.builder import Function, Value
from compiler.codegen.requantize import Multiplier, clamp, multiply_by_quantized_multiplier, split_shift
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.floats.functions import SIGN
from compiler.kernels.kernel import Argument
from compiler.kernels.portable.formula import Formula
from compiler.kernels.portable.rescale import saturate_30
from compiler.numerics import multiply_by_quantized_multiplier as rescaled
from compiler.numerics import quantize_multiplier
from compiler.ops.definition import Array, OperatorView
from compiler.ops.elementwise import QUANTIZED, bound, byte_table, centred, clipped, computed, definition


def ratio(view: OperatorView) -> float:
    """The scales' ratio, in double."""
    return view.input().scale / view.output().scale


def values(view: OperatorView, inputs: Sequence[Array]) -> Array:
    output = view.output()
    scaled = rescaled(np.abs(centred(view, inputs)), *quantize_multiplier(ratio(view)))
    return clipped(scaled + output.zero_point, output)


def moderate_ratio(view: OperatorView) -> str | None:
    """The input scale is less than 2**13 times a quantised output's."""
    return None if view.input().dtype not in QUANTIZED or ratio(view) < 1 << 13 else f"ratio {ratio(view):g}"


def _float(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    return f.from_bits(f.and_(f.bits(operands[0]), SIGN - 1))


def _int32(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    return f.maximum(operands[0], f.sub(0, operands[0]))


def _int16(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    magnitude = _int32(f, isa, operands, parameters)
    scaled = multiply_by_quantized_multiplier(f, isa, magnitude, Multiplier(*parameters))
    return clamp(f, isa, saturate_30(f, scaled), -32768, 32767)


def _bind(view: OperatorView) -> tuple[Formula, Sequence[Argument]]:
    multiplier, shift = quantize_multiplier(ratio(view))
    return Formula("abs", _int16, ("multiplier", "left", "right")), (multiplier, *split_shift(shift))


DEFINITIONS = (
    definition(
        "ABS",
        {
            DType.INT8: byte_table(values),
            DType.INT16: bound(values, _bind),
            DType.INT32: computed("abs", _int32, lanes=4),
            DType.FLOAT32: computed("abs", _float, lanes=4),
        },
        moderate_ratio,
    ),
)
