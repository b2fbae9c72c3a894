# SPDX-License-Identifier: Apache-2.0
"""SIGN: -1, 0 or 1; NaN gives 0.

Source: TensorFlow Lite, kernels/sign.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.builder import Function, Value
from compiler.graph import DType
from compiler.isa import Isa
from compiler.ops.elementwise import computed, definition


def _float(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    zero, one = f.float(0.0), f.float(1.0)
    above = f.select(f.fcompare(">", operands[0], zero), one, zero)
    return f.select(f.fcompare("<", operands[0], zero), f.float(-1.0), above)


def _int32(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    return f.maximum(f.minimum(operands[0], 1), -1)


DEFINITIONS = (
    definition("SIGN", {DType.INT32: computed("sign", _int32, lanes=4), DType.FLOAT32: computed("sign", _float)}),
)
