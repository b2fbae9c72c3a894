# SPDX-License-Identifier: Apache-2.0
"""LOGICAL_OR with broadcasting: true where an input is true.

Source: TensorFlow Lite, kernels/logical.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.builder import Function, Value
from compiler.graph import DType
from compiler.isa import Isa
from compiler.ops.elementwise import computed, definition


def _bool(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    first, second = (f.compare("!=", operand, 0) for operand in operands)
    return f.zext(f.or_(first, second))


DEFINITIONS = (definition("LOGICAL_OR", {DType.BOOL: computed("logical_or", _bool, lanes=4)}, inputs=2),)
