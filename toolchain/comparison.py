# SPDX-License-Identifier: Apache-2.0
"""Outputs against their reference: bit for bit for integers, within a tolerance for floats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FLOAT_TOLERANCE = 1e-4
"""Of the output's range: float sums may be rounded in another order than the reference's (1e-5 a layer, deep nets)."""


@dataclass(frozen=True)
class Difference:
    """How two sets of outputs differ: by how many quantised steps at most where they are integers, by which share of
    the output's range where they are floats."""

    elements: int
    differing: int
    steps: float
    share: float
    rows: int

    @property
    def exact(self) -> bool:
        return self.differing == 0

    @property
    def passed(self) -> bool:
        return self.steps == 0 and self.share <= FLOAT_TOLERANCE

    def __str__(self) -> str:
        if self.exact:
            return f"{self.rows} rows, all {self.elements:,} elements are the reference's"
        steps = [f"{self.steps:.0f} steps"] if self.steps else []
        share = [f"{self.share:.1e} of the range"] if self.share else []
        by = " and ".join(steps + share)
        return f"{self.rows} rows, {self.differing:,} of {self.elements:,} elements differ, by up to {by}"


def compare(found: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]]) -> Difference:
    """Compares outputs [rows, ...] with expected ones of the same shapes."""
    elements = differing = 0
    steps = share = 0.0
    for got, want in zip(found, expected, strict=True):
        elements += got.size
        unequal = (got != want) & ~((got != got) & (want != want))
        differing += int(np.count_nonzero(unequal))
        if not unequal.any():
            continue
        # Equal infinities have no distance: only what differs is measured. A NaN on one side alone is as wrong as can
        # be.
        gap = np.abs(got[unequal].astype(np.float64) - want[unequal].astype(np.float64))
        largest = float(np.nan_to_num(gap, nan=np.inf).max())
        if want.dtype.kind != "f":
            steps = max(steps, largest)
            continue
        finite = want[np.isfinite(want)].astype(np.float64)
        span = max(float(np.ptp(finite)), 1e-3) if finite.size else 1.0
        share = max(share, largest / span)
    return Difference(elements, differing, steps, share, len(found[0]))
