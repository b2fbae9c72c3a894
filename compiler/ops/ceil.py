# SPDX-License-Identifier: Apache-2.0
"""CEIL: the least integer that is not below the input, exact.

Source: TensorFlow Lite, kernels/internal/reference/ceil.h.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.builder import Function, Value
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.floats.rounding import ceil
from compiler.ops.elementwise import computed, definition


def _float(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    return ceil(f, operands[0])


DEFINITIONS = (definition("CEIL", {DType.FLOAT32: computed("ceil", _float)}),)
