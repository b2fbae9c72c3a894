# SPDX-License-Identifier: Apache-2.0
"""MAX_POOL_2D: the greatest value of each window, padding left aside.

Source: TensorFlow Lite, kernels/internal/reference/integer_ops/pooling.h, reference/pooling.h.
"""

from __future__ import annotations

from compiler.kernels.portable.pools import max_pool
from compiler.ops.pooling import definition, max_reference

DEFINITIONS = (definition("MAX_POOL_2D", max_reference, max_pool),)
