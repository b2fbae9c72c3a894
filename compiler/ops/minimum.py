# SPDX-License-Identifier: Apache-2.0
"""MINIMUM with broadcasting: the smaller of two values, raw where they are quantised.

Source: TensorFlow Lite, kernels/maximum_minimum.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.builder import Function, Value
from compiler.graph import DType
from compiler.isa import Isa
from compiler.ops.elementwise import computed, definition, one_quantization


def _integer(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    return f.minimum(*operands)


def _float(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    first, second = operands
    return f.select(f.fcompare("<", first, second), first, second)


INTEGERS = (DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64)
DEFINITIONS = (
    definition(
        "MINIMUM",
        {
            **dict.fromkeys(INTEGERS, computed("minimum", _integer, lanes=4)),
            DType.FLOAT32: computed("minimum", _float, lanes=4),
        },
        one_quantization(),
        inputs=2,
    ),
)
