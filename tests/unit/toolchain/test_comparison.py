# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from toolchain.comparison import compare

LARGEST = float(np.finfo(np.float32).max)


def floats(*values: float) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    return [np.array([values], np.float32)]


def test_integers() -> None:
    difference = compare([np.array([[1, -128]], np.int8)], [np.array([[1, 127]], np.int8)])
    assert (difference.differing, difference.steps, difference.passed) == (1, 255, False)


def test_equal_infinities_and_nans_do_not_hide_what_is_near() -> None:
    difference = compare(floats(np.inf, np.nan, 1.00001, 0.0), floats(np.inf, np.nan, 1.0, 0.0))
    assert (difference.differing, difference.exact, difference.passed) == (1, False, True)
    assert compare(floats(np.inf, np.nan), floats(np.inf, np.nan)).exact


def test_infinities_and_nans_on_one_side() -> None:
    for got, want in ((np.nan, 1.0), (1.0, np.nan), (np.inf, 1.0), (1.0, np.inf), (np.inf, -np.inf)):
        assert not compare(floats(got, 0.0), floats(want, 0.0)).passed


def test_the_range_may_be_beyond_float32() -> None:
    difference = compare(floats(LARGEST, -LARGEST, 1.0), floats(LARGEST, -LARGEST, 0.0))
    assert difference.passed and not difference.exact


def test_each_output_by_the_rule_of_its_type() -> None:
    """Floats may be rounded otherwise beside integers that may not."""
    exact, near = [np.array([[3]], np.int8)], floats(1.00001, 0.0)
    for order in (1, -1):
        found, expected = (exact + near)[::order], (exact + floats(1.0, 0.0))[::order]
        assert compare(found, expected).passed
        wrong = compare([a + np.int8(1) if a.dtype == np.int8 else a for a in found], expected)
        assert not wrong.passed and "by up to 1 steps and 1.0e-05 of the range" in str(wrong)
