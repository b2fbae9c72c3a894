# SPDX-License-Identifier: Apache-2.0
"""DIV with broadcasting. int32 truncates towards 0; a division by 0, which the reference refuses at run time, gives 0.

Source: TensorFlow Lite, kernels/div.cc, kernels/internal/reference/div.h.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.codegen.builder import Function, Value
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import Argument
from compiler.kernels.portable.formula import Formula
from compiler.kernels.portable.integer_division import quotient
from compiler.ops import layers
from compiler.ops.arithmetic import float_kind, int32_range, parse
from compiler.ops.definition import Array, OperatorView
from compiler.ops.elementwise import bound, definition


def _int32(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    return f.minimum(f.maximum(quotient(f, *operands), parameters[0]), parameters[1])


def _bind(view: OperatorView) -> tuple[Formula, Sequence[Argument]]:
    return Formula("div", _int32, ("minimum", "maximum"), lanes=1), int32_range(view.attributes.activation)


def values(view: OperatorView, inputs: Sequence[Array]) -> Array:
    first, second = (x.astype(np.int64) for x in inputs)
    magnitude = np.abs(first) // np.maximum(np.abs(second), 1)
    found = np.where(second == 0, 0, magnitude * np.sign(first) * np.sign(second))
    return np.clip(found, *int32_range(view.attributes.activation))


DEFINITIONS = (
    definition(
        "DIV",
        {
            DType.INT32: bound(values, _bind),
            DType.FLOAT32: float_kind("div", lambda f, a, b: f.fdiv(a, b)),
        },
        layers.clamping_activation,
        inputs=2,
        parse=parse,
    ),
)
