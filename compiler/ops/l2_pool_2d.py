# SPDX-License-Identifier: Apache-2.0
"""L2_POOL_2D: the root of the mean square of each window's cells inside the input.

Source: TensorFlow Lite, kernels/internal/reference/pooling.h (L2Pool).
"""

from __future__ import annotations

import numpy as np

from compiler.kernels.portable.pools import root_mean_square_pool
from compiler.ops.constraints import FLOAT, dtypes
from compiler.ops.definition import Array
from compiler.ops.pooling import average_reference, definition


def _reference(values: Array, inside: Array, ties_up: bool = False) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.sqrt(average_reference(values * values, inside, ties_up))


DEFINITIONS = (definition("L2_POOL_2D", _reference, root_mean_square_pool, dtypes(0, FLOAT)),)
