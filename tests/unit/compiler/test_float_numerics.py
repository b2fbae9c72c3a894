# SPDX-License-Identifier: Apache-2.0
"""The float functions are as accurate as they claim, and exact where the reference makes exceptions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler import fixed_point, float_numerics
from compiler.kernels.portable.softmax import exp_table, reciprocal_table

RNG = np.random.default_rng(2)


@pytest.mark.parametrize(
    ("function", "exact", "x", "units"),
    [
        (float_numerics.exp, np.exp, np.concatenate([RNG.uniform(-103, 88, 100_000), RNG.normal(size=100_000)]), 0.52),
        (float_numerics.tanh, np.tanh, RNG.normal(size=200_000) * 2, 2.0),
        (float_numerics.log, np.log, np.exp(RNG.uniform(-80, 80, 200_000)), 2.0),
    ],
    ids=["exp", "tanh", "log"],
)
def test_units_in_the_last_place(
    function: Callable[..., np.ndarray], exact: Callable[..., np.ndarray], x: np.ndarray, units: float
) -> None:
    x = x.astype(np.float32)
    wanted = exact(x.astype(np.float64))
    spacing = np.spacing(np.abs(wanted).astype(np.float32)).astype(np.float64)
    assert (np.abs(function(x).astype(np.float64) - wanted) / spacing).max() <= units


def test_exp_of_special_values() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, 88.722839, 88.72284, -103.97208, -103.97209, 1e30, -1e30], np.float32)
    with np.errstate(over="ignore"):
        expected = np.exp(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(float_numerics.exp(x), expected)
    assert np.isnan(float_numerics.exp(np.array([np.nan, -np.nan], np.float32))).all()


def test_logistic_has_the_reference_s_cut_offs() -> None:
    x = np.array([16.7, -9.5, 0.0, 100.0, -200.0], np.float32)
    found = float_numerics.logistic(x)
    np.testing.assert_array_equal(found[[0, 2, 3, 4]], np.array([1.0, 0.5, 1.0, 0.0], np.float32))
    assert found[1] == float_numerics.exp(x[1:2])[0]


def test_clamp_makes_infinities_finite_and_keeps_nan() -> None:
    x = np.array([np.inf, -np.inf, np.nan, -0.0], np.float32)
    found = float_numerics.clamp(x, -np.inf, np.inf)
    largest = np.finfo(np.float32).max
    np.testing.assert_array_equal(found, np.array([largest, -largest, np.nan, -0.0], np.float32))
    assert np.signbit(found[3])


SERIES_ERROR = 0.125**5 / 120
"""Of the reference's exponential: a series of degree 4 on +-1/8."""


def test_fixed_point_functions_are_near_the_real_ones() -> None:
    a = -np.linspace(0, 15.9, 1000)
    raw = np.round(a * 2**26).astype(np.int64)
    near = SERIES_ERROR + 2**-26
    np.testing.assert_allclose(fixed_point.exp_on_negative_values(raw, 5) / 2**31, np.exp(a), rtol=0, atol=near)
    x = np.linspace(-7.9, 7.9, 1001)
    raw = np.round(x * 2**27).astype(np.int64)
    np.testing.assert_allclose(fixed_point.logistic(raw, 4) / 2**31, 1 / (1 + np.exp(-x)), rtol=0, atol=near)
    np.testing.assert_allclose(fixed_point.tanh(raw, 4) / 2**31, np.tanh(x), rtol=0, atol=near)


def test_softmax_tables_are_within_a_unit_of_their_functions() -> None:
    """The reference moves samples by up to one unit to spread the error of interpolation."""
    steps = np.arange(513) / 512
    assert np.abs(exp_table() - np.exp(-10 + 10 * steps) * 32768).max() <= 1.5
    assert np.abs(reciprocal_table() - 32768 / (1 + steps)).max() <= 1.5
