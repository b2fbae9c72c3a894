# SPDX-License-Identifier: Apache-2.0
"""ROUND: the nearest integer, the even one of two, exact.

Source: TensorFlow Lite, kernels/internal/reference/round.h.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.builder import Function, Value
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.floats.rounding import round_half_even
from compiler.ops.elementwise import computed, definition


def _float(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    return round_half_even(f, operands[0])


DEFINITIONS = (definition("ROUND", {DType.FLOAT32: computed("round", _float)}),)
