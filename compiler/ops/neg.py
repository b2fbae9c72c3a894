# SPDX-License-Identifier: Apache-2.0
"""NEG: the negative. int8 negates the quantised value, with zero points 0.

Source: TensorFlow Lite, kernels/neg.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.builder import Function, Value
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.floats.functions import SIGN
from compiler.ops.definition import OperatorView
from compiler.ops.elementwise import byte_table, computed, definition, one_quantization


def _float(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    return f.from_bits(f.xor(f.bits(operands[0]), SIGN))


def _integer(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    return f.sub(0, operands[0])


def zero_points_are_zero(view: OperatorView) -> str | None:
    """INT8 tensors have zero point 0."""
    found = view.input().zero_point if view.input().dtype is DType.INT8 else 0
    return f"zero point {found}" if found else None


DEFINITIONS = (
    definition(
        "NEG",
        {
            # The reference wraps: -(-128) is -128.
            DType.INT8: byte_table(lambda view, inputs: -inputs[0]),
            DType.INT32: computed("neg", _integer, lanes=4),
            DType.INT64: computed("neg", _integer, lanes=4),
            DType.FLOAT32: computed("neg", _float, lanes=4),
        },
        one_quantization(),
        zero_points_are_zero,
    ),
)
