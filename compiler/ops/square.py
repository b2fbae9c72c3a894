# SPDX-License-Identifier: Apache-2.0
"""SQUARE: x * x.

Source: TensorFlow Lite, kernels/elementwise.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.builder import Function, Value
from compiler.graph import DType
from compiler.isa import Isa
from compiler.ops.elementwise import computed, definition


def _float(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    return f.fmul(operands[0], operands[0])


DEFINITIONS = (definition("SQUARE", {DType.FLOAT32: computed("square", _float, lanes=4)}),)
