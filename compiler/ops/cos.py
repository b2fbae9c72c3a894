# SPDX-License-Identifier: Apache-2.0
"""COS: the cosine of an angle in radians, within 2 units in the last place.

Source: TensorFlow Lite, kernels/elementwise.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.builder import Function, Value
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.floats.trigonometry import cos
from compiler.ops.elementwise import computed, definition


def _float(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    return cos(f, isa, operands[0])


DEFINITIONS = (definition("COS", {DType.FLOAT32: computed("cos", _float)}),)
