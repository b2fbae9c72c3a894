# SPDX-License-Identifier: Apache-2.0
"""Requantisation by two low products against the reference, for every accumulator."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.kernels.problems import Requantization
from compiler.kernels.scalar.steps import steps
from compiler.kernels.scalar.two_factors import two_factors
from compiler.numerics import quantize_multiplier, requantize

SCALES = (0.0123, 0.3, 0.9, 0.0007)
REACHES = np.array([60_000, 3_000, 900, 100_000])


def _requantization(zero_point: int, minimum: int, maximum: int) -> Requantization:
    pairs = np.array([quantize_multiplier(scale) for scale in SCALES], np.int64)
    return Requantization(pairs[:, 0], pairs[:, 1], zero_point, minimum, maximum)


@pytest.mark.parametrize(("zero_point", "minimum", "maximum"), [(-128, -128, 127), (-20, -20, 90), (-128, -128, -50)])
def test_every_accumulator(zero_point: int, minimum: int, maximum: int) -> None:
    r = _requantization(zero_point, minimum, maximum)
    found = two_factors(r, (-REACHES, REACHES - 5), minimum, 4096)
    assert found is not None
    bits, words = found
    for channel, (high, low, addend, shift) in enumerate(words):
        x = np.arange(-REACHES[channel], REACHES[channel] - 4)
        products = x * high, x * low
        total = products[0] + (products[1] >> bits) + addend
        assert all(np.abs(v).max() < 1 << 31 for v in (*products, total))
        assert 0 <= high < 1 << 16 and 0 <= low < 1 << 16
        assert np.abs(total >> shift).max() < 4096
        one = Requantization(r.multipliers[[channel]], r.shifts[[channel]], zero_point, minimum, maximum)
        wanted = requantize(x[:, None], one)[:, 0]
        np.testing.assert_array_equal(np.clip((total >> shift) + minimum, minimum, maximum), wanted)


@pytest.mark.parametrize("seed", range(3))
def test_ends_between_changes(seed: int) -> None:
    """Bounds that cut an output's accumulators off just behind or before one of its changes."""
    rng = np.random.default_rng(seed)
    r = _requantization(-128, -128, 127)
    checked = 0
    for _ in range(40):
        low = rng.integers(0, (100 / np.array(SCALES)).astype(np.int64))
        size = rng.integers(1, (3 / np.array(SCALES)).astype(np.int64))
        found = two_factors(r, (low, low + size), -127, 1 << 30)
        if found is None:
            continue
        bits, words = found
        checked += 1
        for channel, (high, rest, addend, shift) in enumerate(words):
            x = np.arange(low[channel], low[channel] + size[channel] + 1)
            one = Requantization(r.multipliers[[channel]], r.shifts[[channel]], -128, -128, 127)
            got = ((x * high + (x * rest >> bits) + addend) >> shift) - 127
            np.testing.assert_array_equal(np.clip(got, -128, 127), requantize(x[:, None], one)[:, 0])
    assert checked > 20


def test_steps() -> None:
    r = _requantization(3, -10, 12)
    low, high = -REACHES, REACHES - 5
    reached = steps(r, low, high)
    assert reached.shape == (22, 4)
    for channel in range(4):
        x = np.arange(low[channel], high[channel] + 1)
        one = Requantization(r.multipliers[[channel]], r.shifts[[channel]], 3, -10, 12)
        outputs = requantize(x[:, None], one)[:, 0]
        wanted = [x[outputs >= k][0] if (outputs >= k).any() else high[channel] + 1 for k in range(-9, 13)]
        np.testing.assert_array_equal(reached[:, channel], wanted)


def test_large_accumulators_are_refused() -> None:
    r = _requantization(-128, -128, 127)
    reach = np.full(4, 1 << 24)
    assert two_factors(r, (-reach, reach), -128, 1 << 30) is None


@pytest.mark.parametrize(("minimum", "maximum"), [(-128, 127), (5, 5)])
def test_channels_that_never_change(minimum: int, maximum: int) -> None:
    r = _requantization(-128, minimum, maximum)
    low = np.array([-9000, -20, -900, -500])
    found = two_factors(r, (low, low + 10), minimum + 1, 1 << 30)
    assert found is not None
    assert (found[1][:, 0] == 0).all()
    np.testing.assert_array_equal(found[1][:, 2], [-1] * 4)
