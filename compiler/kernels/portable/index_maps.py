# SPDX-License-Identifier: Apache-2.0
"""Index maps: which element of the input each element of the output is, as an array, made into copies along few axes.

An operator that moves elements applies itself to the numbers 0, 1, 2, ... in the shape of its input; what comes out
is its map. Steps that are even become loops, others offset tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.kernels.portable.copies import Axis

Cells = NDArray[np.int64]
OUTSIDE = -1
"""The number of an output element that is no input element."""


def numbered(shape: Sequence[int]) -> Cells:
    """The elements of a tensor by number."""
    return np.arange(prod(shape), dtype=np.int64).reshape(shape)


def contiguous_start(cells: NDArray[Any]) -> int | None:
    """The first input element where the output is a contiguous part of the input, else None."""
    flat = cells.reshape(-1)
    return int(flat[0]) if np.array_equal(flat, np.arange(flat[0], flat[0] + flat.size)) else None


def copy_axes(cells: NDArray[Any]) -> list[Axis]:
    """The copy from element `cells.flat[0]` on to a contiguous output, in elements, outermost axis first."""
    lines = _separated(cells)
    if lines is None:
        return _line_axes(cells.reshape(-1), 1)
    steps = [prod(cells.shape[axis + 1 :]) for axis in range(cells.ndim)]
    return [axis for line, step in zip(lines, steps, strict=True) for axis in _line_axes(line, step)]


def scatter_cells(cells: NDArray[Any], shape: Sequence[int]) -> Cells:
    """The map the other way round: which output element each element of the input, of shape `shape`, becomes.

    Raises ValueError unless every input element is in the output once.
    """
    flat = cells.reshape(-1)
    (at,) = np.nonzero(flat != OUTSIDE)
    found = np.full(prod(shape), OUTSIDE, np.int64)
    found[flat[at]] = at
    if at.size != found.size or (found == OUTSIDE).any():
        raise ValueError("an element of the input is missing or doubled in the output")
    return found.reshape(shape)


def _separated(cells: NDArray[Any]) -> list[Cells] | None:
    """The numbers along each axis, where all are the sum of those."""
    lines = [cells[(0,) * axis + (slice(None),) + (0,) * (cells.ndim - axis - 1)] for axis in range(cells.ndim)]
    first = cells.reshape(-1)[0]
    total = np.asarray(first)
    for line in lines:
        total = np.add.outer(total, line - first)
    return lines if np.array_equal(total, cells) else None


def _line_axes(line: Cells, target: int) -> list[Axis]:
    """Nested loops for numbers along one axis, `target` apart in the output, outermost first."""
    axes: list[Axis] = []
    while line.size > 1:
        count = _run(line)
        step = int(line[1] - line[0])
        if count == 1:
            starts = (line - line[0]).tolist()
            axes.append(Axis(line.size, 0, 0, tuple((start, i * target) for i, start in enumerate(starts))))
            break
        axes.append(Axis(count, step, target))
        line, target = line[::count], target * count
    return axes[::-1]


def _run(line: Cells) -> int:
    """The longest run of the first step that the whole line consists of."""
    steps = np.diff(line)
    (breaks,) = np.nonzero(steps != steps[0])
    length = line.size
    for end in np.unique(breaks + 1).tolist():
        length = gcd(length, end)
    return length
