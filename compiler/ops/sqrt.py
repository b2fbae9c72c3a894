# SPDX-License-Identifier: Apache-2.0
"""SQRT: the square root, correctly rounded. int8: the float root, divided by the output scale and truncated.

Source: TensorFlow Lite, kernels/elementwise.cc (SqrtEvalQuantized).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.graph import DType
from compiler.kernels.floats import powers as float_powers
from compiler.ops.definition import Array, OperatorView
from compiler.ops.elementwise import byte_table, centred, clipped, computed, definition


def values(view: OperatorView, inputs: Sequence[Array]) -> Array:
    """Inputs below the zero point, which the reference refuses at run time, count as the zero point."""
    output = view.output()
    real = np.float32(view.input().scale) * np.maximum(centred(view, inputs), 0).astype(np.float32)
    return clipped((np.sqrt(real) / np.float32(output.scale)).astype(np.int64) + output.zero_point, output)


DEFINITIONS = (
    definition(
        "SQRT",
        {
            DType.INT8: byte_table(values),
            DType.FLOAT32: computed(
                "sqrt", lambda f, isa, x, _: float_powers.sqrt(f, isa, x[0]), values=lambda view, x: _root(x[0])
            ),
        },
    ),
)


def _root(x: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.sqrt(x)
