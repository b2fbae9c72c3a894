# SPDX-License-Identifier: Apache-2.0
"""BITWISE_XOR with broadcasting.

Source: TensorFlow Lite, kernels/bitwise_xor.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.builder import Function, Value
from compiler.graph import DType
from compiler.isa import Isa
from compiler.ops.elementwise import computed, definition


def _emit(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    return f.xor(*operands)


DEFINITIONS = (definition("BITWISE_XOR", {DType.INT32: computed("bitwise_xor", _emit)}, inputs=2),)
