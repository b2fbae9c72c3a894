# SPDX-License-Identifier: Apache-2.0
"""POW with broadcasting: x ** y with the special values of C's pow, rounded once from double.

Source: TensorFlow Lite, kernels/pow.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.builder import Function, Value
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.floats.powers import power
from compiler.ops.elementwise import computed, definition


def _float(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    return power(f, *operands)


DEFINITIONS = (definition("POW", {DType.FLOAT32: computed("pow", _float)}, inputs=2),)
