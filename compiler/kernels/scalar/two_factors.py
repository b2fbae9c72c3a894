# SPDX-License-Identifier: Apache-2.0
"""Requantisation without a high product, for cores that have none: ((x * high + (x * low >> bits)) + addend) >> shift.

It grows with the accumulator x, so that it is exact if it is right on both sides of each change of the output, and at
the ends. Factors near the exact ones are tried until all of these allow one addend.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from compiler.kernels.packing import Int64Array
from compiler.kernels.problems import Requantization
from compiler.kernels.scalar.steps import steps
from compiler.numerics import requantize

_FARTHEST = 8
_LIMIT = (1 << 31) - 1


def two_factors(
    r: Requantization, bounds: tuple[Int64Array, Int64Array], origin: int, reach: int
) -> tuple[int, Int64Array] | None:
    """The factors' bits, and int64 [channels, 4]: high, low, addend, shift, for accumulators within `bounds`. Results
    count from the output `origin`, and are within `reach` of it. None where some channel has no such form."""
    arrays = (r.multipliers, r.shifts, *bounds)
    ends = (r.zero_point, r.minimum, r.maximum)
    return _found(tuple(np.asarray(a, np.int64).tobytes() for a in arrays), ends, origin, reach)


@lru_cache(maxsize=256)  # A layer's many lowerings ask for the same.
def _found(
    arrays: tuple[bytes, ...], ends: tuple[int, int, int], origin: int, reach: int
) -> tuple[int, Int64Array] | None:
    multipliers, shifts, low, high = (np.frombuffer(data, np.int64) for data in arrays)
    r = Requantization(multipliers, shifts, *ends)
    bits = min(31 - int(np.maximum(abs(low), abs(high)).max()).bit_length(), 15)
    if bits < 8 or (r.multipliers <= 0).any():
        return None
    reached = steps(r, low, high)
    outputs = np.arange(r.minimum + 1, r.maximum + 1)[:, None] - origin
    visible = np.asarray((reached > low) & (reached <= high))
    constant = ~np.any(visible, axis=0)
    ratio = r.multipliers * 2.0 ** (r.shifts.astype(np.float64) - 31)
    shift = np.clip(np.floor(np.log2((1 << bits) - 1) - np.log2(ratio)), 0, 31).astype(np.int64)
    exact = np.round(ratio * 2.0 ** (shift + bits)).astype(np.int64)
    first, last = requantize(low, r) - origin, requantize(high, r) - origin
    fixed = np.stack([np.zeros_like(low), np.zeros_like(low), first, np.zeros_like(low)], axis=1)
    words = np.where(constant[:, None], fixed, -1)
    for distance in sorted(range(-_FARTHEST, _FARTHEST + 1), key=abs):
        factor = exact + distance
        upper, lower = factor >> bits, factor & ((1 << bits) - 1)

        def value(x: Int64Array, upper: Int64Array = upper, lower: Int64Array = lower) -> Int64Array:
            return np.asarray(x * upper + (x * lower >> bits), np.int64)

        least = np.where(visible, (outputs << shift) - value(reached), -_LIMIT).max(axis=0, initial=-_LIMIT)
        most = np.where(visible, (outputs << shift) - 1 - value(reached - 1), _LIMIT).min(axis=0, initial=_LIMIT)
        least = np.where(first > r.minimum - origin, np.maximum(least, (first << shift) - value(low)), least)
        most = np.where(last < r.maximum - origin, np.minimum(most, (last + 1 << shift) - 1 - value(high)), most)
        addend = (least + most) >> 1
        fits = (words[:, 0] < 0) & (least <= most) & (upper < 1 << bits)
        for end in (low, high):
            fits &= abs(value(end)) + abs(addend) < _LIMIT
            fits &= abs(value(end) + addend >> shift) < reach
        words = np.where(fits[:, None], np.stack([upper, lower, addend, shift], axis=1), words)
        if (words[:, 0] >= 0).all():
            return bits, words
    return None
