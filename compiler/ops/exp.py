# SPDX-License-Identifier: Apache-2.0
"""EXP: the exponential function. int8 by a table of 256, int16 by an interpolated one.

Source: LiteRT, kernels/exp.cc.
"""

from __future__ import annotations

import numpy as np

from compiler.graph import DType
from compiler.kernels import float_functions
from compiler.ops.definition import OperatorView
from compiler.ops.elementwise import computed, definition
from compiler.ops.tables import looked_up


def _real(view: OperatorView, x: float) -> float:
    return float(np.exp(np.float32(x)))


DEFINITIONS = (
    definition(
        "EXP",
        {
            **looked_up(_real, DType.INT8, DType.INT16),
            DType.FLOAT32: computed("exp", lambda f, isa, x, _: float_functions.exp(f, isa, x[0])),
        },
    ),
)
