# SPDX-License-Identifier: Apache-2.0
"""LOGICAL_NOT: true where the input is false.

Source: TensorFlow Lite, kernels/elementwise.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.builder import Function, Value
from compiler.graph import DType
from compiler.isa import Isa
from compiler.ops.elementwise import computed, definition


def _bool(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    return f.zext(f.compare("==", operands[0], 0))


DEFINITIONS = (definition("LOGICAL_NOT", {DType.BOOL: computed("logical_not", _bool, lanes=4)}),)
