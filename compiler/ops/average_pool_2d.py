# SPDX-License-Identifier: Apache-2.0
"""AVERAGE_POOL_2D: the mean of each window's cells inside the input, of raw quantised values, ties away from zero.

Source: TensorFlow Lite, kernels/internal/reference/integer_ops/pooling.h, reference/pooling.h.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable.loops import Element
from compiler.kernels.portable.pools import LARGEST_WINDOW, average_pool
from compiler.kernels.portable.whole_average import whole_average
from compiler.kernels.problems import Window
from compiler.ops.definition import OperatorView
from compiler.ops.pooling import average_reference, definition, slide


def _moderate_window(view: OperatorView) -> str | None:
    a = slide(view)
    cells = a.kernel_height * a.kernel_width
    if cells <= LARGEST_WINDOW or not view.input().dtype.is_integer:
        return None
    return f"{a.kernel_height} x {a.kernel_width} cells"


_moderate_window.__doc__ = f"The window has at most {LARGEST_WINDOW} cells; of FLOAT32 any number."


def _pool(isa: Isa, w: Window, element: Element, clamp_to: tuple[float, float] | None, ties_up: bool) -> Lowered:
    lowered = average_pool(isa, w, element, clamp_to, ties_up)
    small = whole_average(isa, w, ties_up) if element is Element.INT8 and clamp_to is None else None
    return replace(lowered, alternatives=(*lowered.alternatives, small)) if small else lowered


DEFINITIONS = (definition("AVERAGE_POOL_2D", average_reference, _pool, _moderate_window),)
