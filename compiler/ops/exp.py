# SPDX-License-Identifier: Apache-2.0
"""EXP: the exponential function. int8 by a table of 256, int16 by an interpolated one.

Source: LiteRT, kernels/exp.cc.
"""

from __future__ import annotations

import math

from compiler.graph import DType
from compiler.kernels.floats import functions as float_functions
from compiler.ops.definition import OperatorView
from compiler.ops.elementwise import computed, definition
from compiler.ops.tables import looked_up


def _real(view: OperatorView, x: float) -> float:
    return math.exp(x) if x < 700 else math.inf


def finite_table(view: OperatorView) -> str | None:
    """The exponential of the largest INT16 input is below 2**100."""
    largest = view.input().scale * 32767 if view.input().dtype is DType.INT16 else 0.0
    return None if largest < 100 * math.log(2) else f"input scale {view.input().scale:g}"


DEFINITIONS = (
    definition(
        "EXP",
        {
            **looked_up(_real, DType.INT8, DType.INT16),
            DType.FLOAT32: computed("exp", lambda f, isa, x, _: float_functions.exp(f, isa, x[0])),
        },
        finite_table,
    ),
)
