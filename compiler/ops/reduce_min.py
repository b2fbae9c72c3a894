# SPDX-License-Identifier: Apache-2.0
"""REDUCE_MIN: the smallest element along axes; raw where values are quantised.

Source: TensorFlow Lite Micro, kernels/reduce_common.cc (EvalMaxHelper, EvalMinHelper).
"""

from __future__ import annotations

from compiler.codegen.builder import Function, Value
from compiler.graph import DType
from compiler.kernels.floats.functions import LARGEST
from compiler.kernels.portable.fold import Fold
from compiler.ops.activation import INTEGER_RANGE
from compiler.ops.reducing import folding


def _float(f: Function, found: Value, value: Value) -> Value:
    return f.select(f.fcompare("<", value, found), value, found)


def _integer(f: Function, found: Value, value: Value) -> Value:
    return f.minimum(found, value)


INTEGERS = {dtype: Fold("min", bounds[1], _integer) for dtype, bounds in INTEGER_RANGE.items()}
DEFINITIONS = (folding("REDUCE_MIN", {**INTEGERS, DType.FLOAT32: Fold("min", LARGEST, _float)}),)
