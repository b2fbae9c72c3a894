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
    """How two sets of outputs differ. `largest` is in quantised steps, or for floats a share of the output's range."""

    elements: int
    differing: int
    largest: float
    is_float: bool
    rows: int

    @property
    def exact(self) -> bool:
        return self.differing == 0

    @property
    def passed(self) -> bool:
        return self.largest <= FLOAT_TOLERANCE if self.is_float else self.exact

    def __str__(self) -> str:
        if self.exact:
            return f"{self.rows} rows, all {self.elements:,} elements are the reference's"
        unit = f"{self.largest:.1e} of the range" if self.is_float else f"{self.largest:.0f} steps"
        return f"{self.rows} rows, {self.differing:,} of {self.elements:,} elements differ, by up to {unit}"


def compare(found: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]]) -> Difference:
    """Compares outputs [rows, ...] with expected ones of the same shapes."""
    elements = differing = 0
    largest = 0.0
    for got, want in zip(found, expected, strict=True):
        elements += got.size
        unequal = (got != want) & ~((got != got) & (want != want))
        differing += int(np.count_nonzero(unequal))
        if unequal.any():
            # Equal infinities have no distance: only what differs is measured.
            gap = np.abs(got[unequal].astype(np.float64) - want[unequal].astype(np.float64))
            finite = want[np.isfinite(want)].astype(np.float64) if want.dtype.kind == "f" else want
            span = max(float(np.ptp(finite)), 1e-3) if want.dtype.kind == "f" and finite.size else 1.0
            # A NaN on one side alone is as wrong as can be.
            largest = max(largest, float(np.nan_to_num(gap, nan=np.inf).max()) / span)
    return Difference(elements, differing, largest, found[0].dtype.kind == "f", len(found[0]))
