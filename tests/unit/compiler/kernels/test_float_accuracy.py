# SPDX-License-Identifier: Apache-2.0
"""Float functions against double precision, over all magnitudes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from compiler.codegen.builder import Function, Value
from compiler.isa import Isa
from compiler.kernels.floats import errors as float_errors
from compiler.kernels.floats import powers as float_powers
from compiler.kernels.floats import rounding as float_rounding
from compiler.kernels.floats import trigonometry as float_trigonometry
from compiler.kernels.portable.arrays import evaluate
from compiler.kernels.portable.fixed_point_ir import logarithm

RANDOM = np.random.default_rng(5)
BITS = RANDOM.integers(0, 1 << 32, 60000, dtype=np.uint64).astype(np.uint32)
EVERYWHERE = np.concatenate(
    [
        BITS.view(np.float32),
        RANDOM.normal(0, 4, 60000).astype(np.float32),
        np.array([0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, np.inf, -np.inf, np.nan, 1e-45, 3e-39], "f4"),
    ]
)
Emitter = Callable[[Function, Isa, Sequence[Value]], Value]


def of(emitter: Emitter, *operands: Any) -> Any:
    return evaluate(lambda f, isa, values, _: emitter(f, isa, values), operands)


def ulps(found: Any, exact: Any) -> float:
    """The largest error in units of the last place of float32; what is not finite must be equal."""
    with np.errstate(all="ignore"):
        want = exact.astype(np.float32)
    finite = np.isfinite(want)
    np.testing.assert_array_equal(found[~finite], want[~finite])
    units = np.maximum(np.spacing(np.abs(want[finite])).astype(np.float64), 2.0**-149)
    return float((np.abs(found[finite].astype(np.float64) - exact[finite]) / units).max())


@pytest.mark.parametrize(
    ("emitter", "exact"),
    [
        (lambda f, isa, x: float_rounding.floor(f, x), np.floor),
        (lambda f, isa, x: float_rounding.ceil(f, x), np.ceil),
        (lambda f, isa, x: float_rounding.truncate(f, x), np.trunc),
        (lambda f, isa, x: float_rounding.round_half_even(f, x), np.rint),
        (float_powers.sqrt, np.sqrt),
    ],
    ids=["floor", "ceil", "truncate", "round_half_even", "sqrt"],
)
def test_exact_functions(emitter: Any, exact: Any) -> None:
    with np.errstate(invalid="ignore"):
        want = exact(EVERYWHERE)
    found = of(lambda f, isa, x: emitter(f, isa, x[0]), EVERYWHERE)
    np.testing.assert_array_equal(found, want)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(want[numbers]))


@pytest.mark.parametrize(("emitter", "exact"), [(float_trigonometry.sin, np.sin), (float_trigonometry.cos, np.cos)])
def test_trigonometry(emitter: Any, exact: Any) -> None:
    with np.errstate(invalid="ignore"):
        want = exact(EVERYWHERE.astype(np.float64))
    assert ulps(of(lambda f, isa, x: emitter(f, isa, x[0]), EVERYWHERE), want) < 2


def test_error_function() -> None:
    found = of(lambda f, isa, x: float_errors.erf(f, isa, x[0]), EVERYWHERE)
    with np.errstate(invalid="ignore"):
        want = np.array([math.erf(x) for x in EVERYWHERE.astype(np.float64)])
    np.testing.assert_array_equal(np.isnan(found), np.isnan(want))
    numbers = ~np.isnan(want)
    assert np.abs(found[numbers] - want[numbers]).max() < 2.0**-23


def test_power() -> None:
    exponents = RANDOM.permutation(EVERYWHERE)
    exponents[:60000] = RANDOM.normal(0, 4, 60000)
    exponents[:2000] = np.round(exponents[:2000] * 4) / 2
    with np.errstate(all="ignore"):
        want = np.power(EVERYWHERE.astype(np.float64), exponents.astype(np.float64))
    assert ulps(of(lambda f, isa, x: float_powers.power(f, *x), EVERYWHERE, exponents), want) < 0.51


def test_the_logarithm_of_sums_is_near_the_real_one() -> None:
    sums = np.concatenate([[1 << 19], RANDOM.integers(1 << 19, (1 << 31) - 1, 5000)]).astype(np.int32)
    found = of(lambda f, isa, x: logarithm(f, isa, x[0]), sums).astype(np.float64) / 2**26
    np.testing.assert_allclose(found, np.log(sums / 2.0**19), rtol=0, atol=2e-6)
