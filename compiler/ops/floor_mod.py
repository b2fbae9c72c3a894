# SPDX-License-Identifier: Apache-2.0
"""FLOOR_MOD with broadcasting: what FLOOR_DIV leaves; it has the sign of the divisor. int32: a division by 0, which the
reference refuses at run time, gives 0.

Source: TensorFlow Lite, kernels/floor_mod.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.codegen.builder import Function, Value
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.floats.remainder import floor_remainder as float_remainder
from compiler.kernels.portable.integer_division import floor_remainder
from compiler.ops.definition import Array, OperatorView
from compiler.ops.elementwise import computed, definition


def _int32(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    return floor_remainder(f, *operands)


def _float(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    return float_remainder(f, *operands)


def int32_values(view: OperatorView, inputs: Sequence[Array]) -> Array:
    first, second = (x.astype(np.int64) for x in inputs)
    return np.where(second == 0, 0, first % np.where(second == 0, 1, second))


def float_values(view: OperatorView, inputs: Sequence[Array]) -> Array:
    first, second = inputs
    with np.errstate(all="ignore"):
        rest = np.fmod(first, second)
        return np.where((rest != 0) & ((rest < 0) != (second < 0)), rest + second, rest)


DEFINITIONS = (
    definition(
        "FLOOR_MOD",
        {
            DType.INT32: computed("floor_mod", _int32, values=int32_values),
            DType.FLOAT32: computed("floor_mod", _float, values=float_values),
        },
        inputs=2,
    ),
)
