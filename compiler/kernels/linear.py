# SPDX-License-Identifier: Apache-2.0
"""Quantised elementwise functions as one linear form in 32 bits, proven by trying every input.

An ADD or a requantisation computes round(sum of ratio * (x - zero point)) with several roundings on the way. One
multiplication an operand and one shift give the same bytes for all inputs if the factors are chosen well; that is
checked here over the whole domain, so the form is exact wherever it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]
SHIFTS_TRIED = 4
FARTHEST = 3


@dataclass(frozen=True)
class Linear:
    """clamp((t + rounding + nudge) >> shift) with t = start + sum of factor * x, and nudge = t >> 31 if `nudged` (ties
    away from zero), else 0."""

    factors: tuple[int, ...]
    start: int
    rounding: int
    shift: int
    nudged: bool

    def __call__(self, *inputs: NDArray[Any]) -> Int64Array:
        total = self.start + sum(f * x.astype(np.int64) for f, x in zip(self.factors, inputs, strict=True))
        nudge = total >> 31 if self.nudged else 0
        return np.asarray((total + self.rounding + nudge) >> self.shift, np.int64)


@dataclass(frozen=True, eq=False)
class Function:
    """What is to be computed. `domains` are all values of each input (broadcast against each other), `exact` the
    reference's outputs for them, clamped to minimum..maximum; `ratios` are the real factors."""

    domains: tuple[Int64Array, ...]
    exact: Int64Array
    ratios: tuple[float, ...]
    zero_points: tuple[int, ...]
    output_zero_point: int
    minimum: int
    maximum: int


def fit(function: Function) -> Linear | None:
    """A linear form that equals the function on its whole domain, or None where none was found."""
    centred = [d - z for d, z in zip(function.domains, function.zero_points, strict=True)]
    real = np.asarray(sum(r * c for r, c in zip(function.ratios, centred, strict=True)), np.float64)
    real = np.broadcast_to(real, function.exact.shape)
    # Where the fraction is far from a half every good candidate agrees: try the few others first.
    near = np.abs(real - np.floor(real) - 0.5) < 1e-3
    hard = [np.broadcast_to(d, function.exact.shape)[near] for d in function.domains]
    wanted = function.exact[near]
    for candidate in _candidates(function):
        if np.array_equal(_clamped(candidate(*hard), function), wanted) and np.array_equal(
            np.broadcast_to(_clamped(candidate(*function.domains), function), function.exact.shape), function.exact
        ):
            return candidate
    return None


def _candidates(function: Function) -> Iterator[Linear]:
    """Forms that do not overflow 32 bits, finest first, rounding ties upwards before away from zero."""
    reach = [int(np.abs(d).max()) for d in function.domains]
    finest = 30
    while finest > 0 and _greatest(function, reach, finest) >= 1 << 31:
        finest -= 1
    steps = sorted(product(range(-FARTHEST, FARTHEST + 1), repeat=len(reach)), key=lambda s: (sum(map(abs, s)), s))
    for shift, nudged, step in product(range(finest, max(finest - SHIFTS_TRIED, 0), -1), (False, True), steps):
        factors = tuple(round(r * (1 << shift)) + s for r, s in zip(function.ratios, step, strict=True))
        start = -sum(f * z for f, z in zip(factors, function.zero_points, strict=True))
        rounding = (1 << shift - 1) + (function.output_zero_point << shift)
        yield Linear(factors, start, rounding, shift, nudged)


def _greatest(function: Function, reach: Sequence[int], shift: int) -> int:
    """A bound of all intermediate values."""
    factors = [abs(r) * (1 << shift) + FARTHEST + 1 for r in function.ratios]
    sums = sum(f * (most + abs(z)) for f, most, z in zip(factors, reach, function.zero_points, strict=True))
    return int(sums) + ((abs(function.output_zero_point) + 1) << shift) + 1


def _clamped(values: Int64Array, function: Function) -> Int64Array:
    return np.clip(values, function.minimum, function.maximum)
