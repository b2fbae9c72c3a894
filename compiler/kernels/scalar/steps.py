# SPDX-License-Identifier: Apache-2.0
"""Where outputs change: what a kernel's requantisation must get right if it grows with the accumulator."""

from __future__ import annotations

import numpy as np

from compiler.kernels.packing import Int64Array
from compiler.kernels.problems import Requantization
from compiler.numerics import requantize


def steps(r: Requantization, low: Int64Array, high: Int64Array) -> Int64Array:
    """The first accumulator of each channel, from `low` to `high` (below 2**31), whose output is at least minimum + 1,
    ..., maximum: int64 [outputs, channels]. `low` where all have it, `high` + 1 where none has."""
    outputs = np.arange(r.minimum + 1, r.maximum + 1)[:, None]
    shape = (len(outputs), len(low))
    below, reached = np.broadcast_to(low - 1, shape), np.broadcast_to(high + 1, shape)
    while (apart := reached - below > 1).any():
        middle = np.where(apart, (below + reached) >> 1, low)
        there = requantize(middle, r) >= outputs
        below, reached = np.where(apart & ~there, middle, below), np.where(apart & there, middle, reached)
    return reached
