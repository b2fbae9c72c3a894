# SPDX-License-Identifier: Apache-2.0
"""FLOOR_DIV with broadcasting: the quotient rounded down. int32: a division by 0, which the reference refuses at run
time, gives 0.

Source: TensorFlow Lite, kernels/floor_div.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.codegen.builder import Function, Value
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.floats.rounding import floor
from compiler.kernels.portable.integer_division import floor_quotient
from compiler.ops.definition import Array, OperatorView
from compiler.ops.elementwise import computed, definition


def _int32(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    return floor_quotient(f, *operands)


def values(view: OperatorView, inputs: Sequence[Array]) -> Array:
    first, second = (x.astype(np.int64) for x in inputs)
    found = np.where(second == 0, 0, first // np.where(second == 0, 1, second))
    return np.minimum(found, (1 << 31) - 1)


def _float(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    return floor(f, f.fdiv(*operands))


DEFINITIONS = (
    definition(
        "FLOOR_DIV",
        {
            DType.INT32: computed("floor_div", _int32, values=values),
            DType.FLOAT32: computed("floor_div", _float),
        },
        inputs=2,
    ),
)
