# SPDX-License-Identifier: Apache-2.0
"""Index maps become loops that name the same elements; the loops move the right bytes on emulated cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.graph import DType
from compiler.kernels.kernel import Lowered, Place, Role
from compiler.kernels.portable.copies import Axis, copy, merged
from compiler.kernels.portable.index_maps import OUTSIDE, contiguous_start, copy_axes, numbered, scatter_cells
from tests.harness import isa_of, run_layer

Cells = np.ndarray
MOVES: dict[str, tuple[tuple[int, ...], Callable[[Cells], Cells]]] = {
    "all": ((3, 4), lambda x: x),
    "transposed": ((2, 3, 4, 5), lambda x: x.transpose(3, 1, 0, 2)),
    "backwards": ((3, 4), lambda x: x[::-1, ::-1]),
    "repeated": ((3, 2), lambda x: np.tile(x, (2, 3))),
    "doubled": ((3, 4, 2), lambda x: x.repeat(2, 0).repeat(2, 1)),
    "mirrored": ((6, 5, 4), lambda x: np.pad(x, ((2, 1), (0, 3), (0, 0)), "reflect")),
    "chosen cells": ((6, 4), lambda x: x[[4, 0, 5, 5]]),
    "chosen columns": ((3, 7), lambda x: x[:, [1, 6, 2]]),
    "one cell": ((3, 7), lambda x: x[2:, 3:4]),
    "deep": ((2, 2, 2, 2, 2, 2, 3), lambda x: x.transpose(6, 5, 4, 3, 2, 1, 0)),
    "no sum of lines": ((4, 4), lambda x: x[[0, 2, 1], [3, 0, 1]]),
    "no sum of lines, rows": ((4, 4, 3), lambda x: x[[0, 2, 1], [3, 0, 1]]),
}


def moved(axes: Sequence[Axis], x: Cells, count: int, start: int) -> Cells:
    """What the loops do, cell by cell, in units of one element."""
    at = [(start, 0)]
    for axis in axes:
        cells = axis.table or tuple((i * axis.source, i * axis.target) for i in range(axis.count))
        at = [(source + a, target + b) for source, target in at for a, b in cells]
    found = np.full(count, OUTSIDE, x.dtype)
    for source, target in at:
        found[target] = x.reshape(-1)[source]
    return found


@pytest.mark.parametrize("name", MOVES)
def test_axes_name_the_elements(name: str) -> None:
    shape, move = MOVES[name]
    cells = move(numbered(shape))
    for axes in (copy_axes(cells), merged(copy_axes(cells))):
        found = moved(axes, numbered(shape), cells.size, int(cells.flat[0]))
        np.testing.assert_array_equal(found.reshape(cells.shape), cells)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=24), st.integers(1, 3))
def test_any_map_along_a_line(choice: list[int], inner: int) -> None:
    x = numbered((21, inner))
    cells = x[choice]
    found = moved(merged(copy_axes(cells)), x, cells.size, int(cells.flat[0]))
    np.testing.assert_array_equal(found.reshape(cells.shape), cells)


def test_even_steps_need_no_table() -> None:
    for name in ("transposed", "backwards", "repeated", "doubled", "deep"):
        shape, move = MOVES[name]
        assert not any(axis.table for axis in copy_axes(move(numbered(shape)))), name


def test_merged_axes_are_few() -> None:
    assert len(merged(copy_axes(numbered((2, 3, 4, 5)).transpose(0, 3, 1, 2)))) == 3
    assert merged([Axis(1, 7, 7), Axis(4, 5, 5), Axis(5, 1, 1)]) == (Axis(20, 1, 1),)
    assert merged([Axis(1, 7, 7)]) == (Axis(1, 0, 0),)


def test_contiguous_parts() -> None:
    x = numbered((4, 6))
    assert (contiguous_start(x), contiguous_start(x[2:]), contiguous_start(x[1, 2:5])) == (0, 12, 8)
    assert contiguous_start(x[:, 1:]) is None


def test_scatter() -> None:
    x = numbered((2, 3))
    padded = np.pad(x, 1, constant_values=OUTSIDE).T
    np.testing.assert_array_equal(padded.reshape(-1)[scatter_cells(padded, (2, 3))], x)
    for wrong in (x[:1], np.tile(x, (2, 1))):
        with pytest.raises(ValueError, match="missing or doubled"):
            scatter_cells(wrong, (2, 3))


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4f", "rv32imac"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16, DType.FLOAT32, DType.INT64], ids=lambda t: t.name)
def test_moves_on_cores(core: str, dtype: DType, tmp_path: Path) -> None:
    size, calls, inputs, wanted = dtype.bytes, [], [], []
    for number, (shape, move) in enumerate(MOVES.values()):
        cells = move(numbered(shape))
        source = Place(Role.INPUT, number, int(cells.flat[0]) * size)
        axes = [axis.times(size) for axis in copy_axes(cells)]
        calls.append(copy(isa_of(core), source, Place(Role.OUTPUT, number), axes, size))
        inputs.append(np.random.default_rng(number).integers(-100, 100, shape).astype(dtype.numpy))
        wanted.append(move(inputs[-1]))
    shapes = [(dtype, x.shape) for x in wanted]
    (found,) = run_layer(core, Lowered(tuple(calls)), [inputs], shapes, tmp_path)
    for name, got, want in zip(MOVES, found, wanted, strict=True):
        np.testing.assert_array_equal(got, want, name)
