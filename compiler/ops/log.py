# SPDX-License-Identifier: Apache-2.0
"""LOG: the natural logarithm. int8 by a table, int16 by an interpolated one: the lowest output where the input is not
above 0.

Source: TensorFlow Lite, kernels/elementwise.cc (LogLUTPrepare).
"""

from __future__ import annotations

import math

import numpy as np

from compiler.graph import DType
from compiler.kernels.floats import functions as float_functions
from compiler.ops.activation import INTEGER_RANGE
from compiler.ops.definition import OperatorView
from compiler.ops.elementwise import computed, definition
from compiler.ops.tables import looked_up


def _real(view: OperatorView, x: float) -> float:
    output = view.output()
    lowest = INTEGER_RANGE[output.dtype][0]
    return math.log(x) if x > 0 else float(np.float32(lowest - output.zero_point) * np.float32(output.scale))


DEFINITIONS = (
    definition(
        "LOG",
        {
            **looked_up(_real, DType.INT8, DType.INT16),
            DType.FLOAT32: computed("log", lambda f, isa, x, _: float_functions.log(f, isa, x[0])),
        },
    ),
)
