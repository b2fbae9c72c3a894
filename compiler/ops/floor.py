# SPDX-License-Identifier: Apache-2.0
"""FLOOR: the greatest integer that is not above the input, exact.

Source: TensorFlow Lite, kernels/internal/reference/floor.h.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.builder import Function, Value
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.floats.rounding import floor
from compiler.ops.elementwise import computed, definition


def _float(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    return floor(f, operands[0])


DEFINITIONS = (definition("FLOOR", {DType.FLOAT32: computed("floor", _float)}),)
