# SPDX-License-Identifier: Apache-2.0
"""Quantised elementwise functions as one linear form in 32 bits, proven by trying every input.

An ADD or a requantisation computes round(sum of ratio * (x - zero point)) with several roundings on the way. One
multiplication an operand and one shift give the same bytes for all inputs if the factors are chosen well; that is
checked here over the whole domain, so the form is exact wherever it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]
SHIFTS_TRIED = 4
FARTHEST = 3


@dataclass(frozen=True)
class Linear:
    """clamp((t + rounding - (nudge if t < 0 else 0)) >> shift) with t = start + sum of factor * x. A nudge sends ties,
    and what the reference's first roundings make ties, away from zero."""

    factors: tuple[int, ...]
    start: int
    rounding: int
    shift: int
    nudge: int

    @property
    def constants(self) -> tuple[int, int, int, int]:
        """start, rounding, shift, nudge as kernels take them: without a nudge, the start holds the rounding too."""
        if self.nudge:
            return self.start, self.rounding, self.shift, self.nudge
        return self.start + self.rounding, 0, self.shift, 0

    def __call__(self, *inputs: NDArray[Any]) -> Int64Array:
        total = _total(self.factors, self.start, inputs)
        return np.asarray((total + self.rounding - (total >> 63 & self.nudge)) >> self.shift, np.int64)


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
    """A linear form that equals the function on its whole domain, without a nudge if possible, or None where none was
    found."""
    # The inputs of a sum are scaled finely: where its fraction is far from a half, every good candidate agrees.
    hard = function if len(function.domains) == 1 else _part(function, _near_ties(function))
    for nudged in (False, True):
        for factors, shift in _candidates(function):
            candidate = _rounded(hard, factors, shift, nudged)
            if candidate is not None and _is_exact(candidate, function):
                return candidate
    return None


def _candidates(function: Function) -> Iterator[tuple[tuple[int, ...], int]]:
    """Factors and shifts that do not overflow 32 bits, finest and nearest to the ratios first."""
    reach = [int(np.abs(d).max()) for d in function.domains]
    finest = 30
    while finest > 0 and _greatest(function, reach, finest) >= 1 << 31:
        finest -= 1
    steps = sorted(product(range(-FARTHEST, FARTHEST + 1), repeat=len(reach)), key=lambda s: (sum(map(abs, s)), s))
    for shift, step in product(range(finest, max(finest - SHIFTS_TRIED, 0), -1), steps):
        yield tuple(round(r * (1 << shift)) + s for r, s in zip(function.ratios, step, strict=True)), shift


def _rounded(points: Function, factors: tuple[int, ...], shift: int, nudged: bool) -> Linear | None:
    """The form with these factors whose rounding constants suit all points, which are flat; None if there is none.

    A point with output e asks for e << shift <= t + constant < (e + 1) << shift, one of them only where e is clamped.
    """
    start = -sum(f * z for f, z in zip(factors, points.zero_points, strict=True))
    total = np.asarray(_total(factors, start, points.domains), np.int64)
    lower = np.where(points.exact == points.minimum, -_FAR, (points.exact << shift) - total)
    upper = np.where(points.exact == points.maximum, _FAR, (points.exact + 1 << shift) - 1 - total)
    wanted = (1 << shift >> 1) + (points.output_zero_point << shift)
    constants = []
    for side in (total >= 0, total < 0) if nudged else (total == total,):
        least, most = lower[side].max(initial=-_FAR), upper[side].min(initial=_FAR)
        if least > most:
            return None
        constants.append(int(min(max(wanted, least), most)))
    rounding, nudge = constants[0], constants[0] - constants[-1]
    slack = 1 << shift
    if abs(rounding - wanted) > slack or abs(nudge) > slack:
        return None
    return Linear(factors, start, rounding, shift, nudge)


_FAR = 1 << 62


def _near_ties(function: Function) -> NDArray[np.bool_]:
    centred = [d - z for d, z in zip(function.domains, function.zero_points, strict=True)]
    real = np.asarray(sum(r * c for r, c in zip(function.ratios, centred, strict=True)), np.float64)
    real = np.broadcast_to(real, function.exact.shape)
    return np.asarray(np.abs(real - np.floor(real) - 0.5) < 1e-3)


def _part(function: Function, where: NDArray[np.bool_]) -> Function:
    """The function on some points of its domain, flat."""
    domains = tuple(np.broadcast_to(d, function.exact.shape)[where] for d in function.domains)
    return replace(function, domains=domains, exact=function.exact[where])


def _is_exact(candidate: Linear, function: Function) -> bool:
    found = np.clip(candidate(*function.domains), function.minimum, function.maximum)
    return bool(np.array_equal(np.broadcast_to(found, function.exact.shape), function.exact))


def _greatest(function: Function, reach: Sequence[int], shift: int) -> int:
    """A bound of all intermediate values."""
    factors = [abs(r) * (1 << shift) + FARTHEST + 1 for r in function.ratios]
    sums = sum(f * (most + abs(z)) for f, most, z in zip(factors, reach, function.zero_points, strict=True))
    return int(sums) + ((abs(function.output_zero_point) + 4) << shift) + 1


def _total(factors: Sequence[int], start: int, inputs: Sequence[NDArray[Any]]) -> Int64Array:
    return np.asarray(start + sum(f * x.astype(np.int64) for f, x in zip(factors, inputs, strict=True)), np.int64)
