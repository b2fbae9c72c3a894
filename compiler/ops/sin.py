# SPDX-License-Identifier: Apache-2.0
"""SIN: the sine of an angle in radians, within 2 units in the last place.

Source: TensorFlow Lite, kernels/elementwise.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.builder import Function, Value
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.floats.trigonometry import sin
from compiler.ops.elementwise import computed, definition


def _float(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    return sin(f, isa, operands[0])


DEFINITIONS = (definition("SIN", {DType.FLOAT32: computed("sin", _float)}),)
