# SPDX-License-Identifier: Apache-2.0
"""REDUCE_ALL: true where all elements along axes are true.

Source: TensorFlow Lite, kernels/reduce.cc.
"""

from __future__ import annotations

from compiler.codegen.builder import Function, Value
from compiler.graph import DType
from compiler.kernels.portable.fold import Fold
from compiler.ops.reducing import folding


def _bool(f: Function, found: Value, value: Value) -> Value:
    return f.and_(found, f.zext(f.compare("!=", value, 0)))


DEFINITIONS = (folding("REDUCE_ALL", {DType.BOOL: Fold("all", 1, _bool)}),)
