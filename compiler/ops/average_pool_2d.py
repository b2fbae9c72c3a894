# SPDX-License-Identifier: Apache-2.0
"""AVERAGE_POOL_2D: the mean of each window's cells inside the input, of raw quantised values, ties away from zero.

Source: TensorFlow Lite, kernels/internal/reference/integer_ops/pooling.h, reference/pooling.h.
"""

from __future__ import annotations

from compiler.kernels.portable.pools import LARGEST_WINDOW, average_pool
from compiler.ops.definition import OperatorView
from compiler.ops.pooling import average_reference, definition


def _moderate_window(view: OperatorView) -> str | None:
    a = view.attributes
    cells = int(a.filter_height * a.filter_width)
    if cells <= LARGEST_WINDOW or not view.input().dtype.is_integer:
        return None
    return f"{a.filter_height} x {a.filter_width} cells"


_moderate_window.__doc__ = f"The window has at most {LARGEST_WINDOW} cells; of FLOAT32 any number."

DEFINITIONS = (definition("AVERAGE_POOL_2D", average_reference, average_pool, _moderate_window),)
