# SPDX-License-Identifier: Apache-2.0
"""The arithmetic and geometry behind the kernels for any core, without an emulator."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.codegen.requantize import narrow_shifts, reduce_multiplier, split_shift
from compiler.kernels.portable import copies, reduce
from compiler.kernels.portable.formula import merged
from compiler.kernels.portable.loops import lanes_of
from compiler.kernels.portable.pools import reciprocal
from compiler.kernels.portable.rescale import Form, rescale_of
from compiler.kernels.portable.windows import Run, runs
from compiler.kernels.problems import Requantization
from compiler.numerics import multiply_by_quantized_multiplier_int64


@pytest.mark.parametrize("count", [1, 2, 3, 7, 9, 49, 100, 125, 255, 361, 1000, 8191, 8192])
def test_division_by_reciprocal_is_exact(count: int) -> None:
    multiplier, shift = reciprocal(count)
    assert multiplier < 1 << 31
    edges = [n + d for n in range(0, 1 << 29, (1 << 29) // 999) for d in (-n % count - 1, -n % count, -n % count + 1)]
    for n in [*range(2000), *(e for e in edges if 0 <= e < 1 << 29), (1 << 29) - 1]:
        assert (4 * n * multiplier >> 32) >> shift == n // count


@pytest.mark.parametrize(
    ("multiplier", "shift"), [(0x40000000, -8), (0x7FFFFFFF, 0), (0x5A827999, -1), (0x60000001, 3)]
)
def test_narrow_form_equals_the_64_bit_form(multiplier: int, shift: int) -> None:
    factor, left, right = narrow_shifts(multiplier, shift)
    x = np.concatenate([np.arange(-5000, 5000), np.random.default_rng(1).integers(-(1 << 24), 1 << 24, 5000)])
    narrow = (((x.astype(np.int64) << left) * factor >> 32) + (1 << right >> 1)) >> right
    assert np.array_equal(narrow, multiply_by_quantized_multiplier_int64(x, multiplier, shift))


def test_multiplier_parts() -> None:
    assert split_shift(3) == (3, 0)
    assert split_shift(-4) == (0, 4)
    assert reduce_multiplier(0x7FFFFFFF, 0) == (0x7FFF, 15)
    assert reduce_multiplier(0x40008000, -2) == (0x4001, 17)


def rescale(bias: int, products: int, multiplier: int, shift: int, wide: bool) -> Form:
    r = Requantization(np.array([multiplier]), np.array([shift]), 0, -32768, 32767)
    return rescale_of(r, np.array([bias]), np.array([products]), wide).form


def test_the_weights_decide_the_form() -> None:
    half = 1 << 30
    assert rescale(0, 1 << 28, half, -8, wide=True) is Form.NARROW
    assert rescale(1 << 35, 1 << 28, half, -8, wide=True) is Form.LONG
    assert rescale(0, 1 << 31, half, -8, wide=True) is Form.LONG
    assert rescale(0, 1 << 28, half, -8, wide=False) is Form.DOUBLE_SMALL
    assert rescale(0, 1 << 29, half, -8, wide=False) is Form.DOUBLE
    assert rescale(0, 1 << 28, half, 2, wide=False) is Form.DOUBLE


def test_runs_cut_windows_at_the_borders() -> None:
    assert runs(5, 5, 3, 1, 1, 1) == (Run(1, 1, 2, 0), Run(3, 0, 3, 0), Run(1, 0, 2, 3))
    assert runs(6, 3, 3, 2, 0, 1) == (Run(2, 0, 3, 0), Run(1, 0, 2, 4))
    assert runs(4, 4, 2, 1, 0, 3) == (Run(1, 0, 2, 0), Run(3, 0, 1, 1))
    with pytest.raises(ValueError, match="window 0 of 1 lies in the padding"):
        runs(1, 1, 2, 1, 1, 3)


def test_broadcasts_merge() -> None:
    assert merged((1, 4, 5, 3), [(1, 4, 5, 3), (1, 4, 5, 3)]) == ((60,), ((1,), (1,)))
    assert merged((1, 4, 5, 3), [(1, 4, 5, 3), (3,)]) == ((20, 3), ((3, 1), (0, 1)))
    assert merged((1, 4, 5, 3), [(), (1, 4, 5, 3)]) == ((60,), ((0,), (1,)))
    assert merged((2, 4, 3), [(2, 1, 3), (1, 4, 1)]) == ((2, 4, 3), ((3, 0, 1), (0, 1, 0)))
    assert merged((1,), [(1,), (1,)]) == ((1,), ((0,), (0,)))


def test_reductions_merge() -> None:
    Axis = reduce.Axis
    assert reduce.reduction((1, 4, 5, 6), frozenset({1, 2})) == reduce.Reduction((Axis(6, 1),), (Axis(20, 6),))
    assert reduce.reduction((2, 4, 5, 6), frozenset({1, 3})) == reduce.Reduction(
        (Axis(2, 120), Axis(5, 6)), (Axis(4, 30), Axis(6, 1))
    )
    assert reduce.reduction((2, 3), frozenset({0, 1})).count == 6
    assert not reduce.reduction((2, 2, 2, 2, 2, 2), frozenset({1, 3, 5})).is_walkable


def test_copies_merge() -> None:
    Axis = copies.Axis
    assert copies.merged([Axis(2, 12, 12), Axis(3, 4, 4), Axis(4, 1, 1)]) == (Axis(24, 1, 1),)
    assert copies.merged([Axis(2, 12, 20), Axis(3, 4, 4), Axis(4, 1, 1)]) == (Axis(2, 12, 20), Axis(12, 1, 1))
    assert copies.merged([Axis(1, 5, 7)]) == (Axis(1, 0, 0),)


def test_lanes_divide() -> None:
    assert [lanes_of(n) for n in (1, 2, 3, 5, 6, 8, 10)] == [1, 2, 3, 1, 3, 4, 2]
