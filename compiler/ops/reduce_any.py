# SPDX-License-Identifier: Apache-2.0
"""REDUCE_ANY: true where an element along axes is true.

Source: TensorFlow Lite, kernels/reduce.cc.
"""

from __future__ import annotations

from compiler.codegen.builder import Function, Value
from compiler.graph import DType
from compiler.kernels.portable.fold import Fold
from compiler.ops.reducing import folding


def _bool(f: Function, found: Value, value: Value) -> Value:
    return f.or_(found, f.zext(f.compare("!=", value, 0)))


DEFINITIONS = (folding("REDUCE_ANY", {DType.BOOL: Fold("any", 0, _bool)}),)
