# SPDX-License-Identifier: Apache-2.0
"""ARG_MIN: the position of the first smallest element along an axis.

Source: TensorFlow Lite, kernels/internal/reference/arg_min_max.h.
"""

from __future__ import annotations

from compiler.ops.positions import positions

DEFINITIONS = (positions("ARG_MIN", largest=False),)
