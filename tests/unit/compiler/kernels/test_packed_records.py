# SPDX-License-Identifier: Apache-2.0
"""Channels' records in few bytes: what is proven of shortened multipliers, and what the packed form holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler.kernels import packed_records
from compiler.kernels.packed_records import Word
from compiler.kernels.packing import accumulator_bounds
from compiler.kernels.problems import Requantization
from compiler.numerics import requantize

CHANNELS = 8
WORDS = (Word.BIAS, Word.MULTIPLIER, Word.ROUNDING, Word.EXPONENT)


def _layer(seed: int, shift: int = -7) -> tuple[np.ndarray, np.ndarray, Requantization]:
    random = np.random.default_rng(seed)
    weights = random.integers(-127, 128, (CHANNELS, 12))
    multipliers = random.integers(1 << 30, 1 << 31, CHANNELS)
    return (
        weights,
        random.integers(-3000, 3000, CHANNELS),
        Requantization(multipliers, np.full(CHANNELS, shift), -3, -128, 127),
    )


@pytest.mark.parametrize("seed", range(6))
def test_shortened_multipliers_give_the_same_outputs(seed: int) -> None:
    weights, bias, r = _layer(seed)
    short = packed_records.shortened(weights, bias, 5, r, folded=5)
    assert short is not None and not short.constant.any() and np.array_equal(short.bias, bias)
    low, high = accumulator_bounds(weights, bias, 5)
    every = np.arange(low.min(), high.max() + 1)[:, None]
    within = np.clip(every, low, high)
    assert np.array_equal(requantize(within, r), requantize(within, short.requantization))
    words = _words(1 - short.requantization.shifts, bias - 5 * weights.sum(axis=1), short.requantization.multipliers, 4)
    packed = packed_records.pack(words, WORDS)
    assert packed is not None and packed.rows.shape[1] <= 6


def test_a_constant_channel_keeps_its_output() -> None:
    weights, bias, r = _layer(1)
    weights[3] = 0
    bias[3] = 777
    r = replace(r, shifts=np.where(np.arange(CHANNELS) == 3, -20, r.shifts))
    short = packed_records.shortened(weights, bias, 5, r, folded=5)
    assert short is not None and short.constant.tolist() == [i == 3 for i in range(CHANNELS)]
    assert requantize(short.bias, short.requantization)[3] == requantize(bias, r)[3]
    assert (short.requantization.shifts == -7).all()


@pytest.mark.parametrize(
    "r",
    [
        Requantization(np.full(CHANNELS, 1 << 29), np.full(CHANNELS, -7), 0, -128, 127),
        Requantization(np.full(CHANNELS, 1 << 30), np.full(CHANNELS, 1), 0, -128, 127),
    ],
    ids=["not normalised", "to the left"],
)
def test_what_is_not_shortened(r: Requantization) -> None:
    weights, bias, _ = _layer(2)
    assert packed_records.shortened(weights, bias, 0, r, folded=0) is None


def test_a_multiplier_whose_low_bits_count_is_left_alone() -> None:
    """Accumulators so large that each of the multiplier's bits can be seen: none that ends with zeros serves."""
    low, high = np.full(1, -(1 << 30)), np.full(1, 1 << 30)
    exact = Requantization(np.full(1, (1 << 30) + 5), np.full(1, -22), 0, -128, 127)
    assert packed_records.rounded(exact, low, high, 11, np.zeros(1, np.int64)) is None
    short = replace(exact, multipliers=np.full(1, 1 << 30))
    found = packed_records.rounded(short, low, high, 11, np.zeros(1, np.int64))
    assert found is not None and found.multipliers.tolist() == [1 << 30]


def test_ends_of_multipliers_are_kept() -> None:
    low, high, ends = np.full(2, -1000), np.full(2, 1000), np.array([0x1F8, 0])
    r = Requantization(np.array([(1 << 30) + 12345, (1 << 31) - 1]), np.full(2, -4), 0, -128, 127)
    found = packed_records.rounded(r, low, high, 9, ends)
    assert found is not None and (found.multipliers & 0x1FF).tolist() == ends.tolist()
    every = np.arange(-1000, 1001)[:, None].repeat(2, axis=1)
    assert np.array_equal(requantize(every, found), requantize(every, r))


def _words(exponents: np.ndarray, bias: np.ndarray, multipliers: np.ndarray, zero_point: int) -> np.ndarray:
    rounding = ((2 * zero_point + 1) << exponents - 1) + 1
    return np.stack([bias, multipliers, rounding, exponents], axis=1)


@pytest.mark.parametrize(
    ("most", "low_bits", "size"),
    [(100, 3, 5), (128, 3, 6), (128, 4, 5), (32768, 3, 7), (1 << 24, 3, 8), (1 << 31, 3, 8)],
)
def test_bytes_of_a_channel(most: int, low_bits: int, size: int) -> None:
    """Signed: a power of two needs a bit more. Where bits are shared, all must agree: even multipliers, for biases
    whose highest bit is 0."""
    exponents = np.array([3, 9, 8, 12])
    bias = np.array([0, 5, most - 1, min(most, (1 << 31) - 1)])
    multipliers = (1 << 30) + (np.array([0, 1, 3, 1001]) << low_bits)
    packed = packed_records.pack(_words(exponents, bias, multipliers, -9), WORDS)
    assert packed is not None and packed.rows.shape == (4, size)
    bits = int(bias.max()).bit_length() + 1
    assert packed.entries == (size, 32 - bits, 1, 2 * (2 * -9 + 1))
    for row, e, m, b in zip(packed.rows, exponents, multipliers, bias, strict=True):
        whole = int.from_bytes(row.tobytes(), "little")
        assert whole >> 8 * size - 32 == e << 27 | (m - (1 << 30)) >> 3 and whole & (1 << bits) - 1 == b


def test_what_does_not_follow_from_the_exponent_is_not_packed() -> None:
    words = _words(np.array([3, 9, 8]), np.arange(3), np.full(3, 1 << 30), 4)
    assert packed_records.pack(words, WORDS) is not None
    words[1, 2] += 1
    assert packed_records.pack(words, WORDS) is None


@pytest.mark.parametrize("multiplier", [0, (1 << 30) - 8, (1 << 30) + 1])
def test_multipliers_that_are_not_packed(multiplier: int) -> None:
    words = _words(np.array([3, 9]), np.arange(2), np.array([1 << 30, multiplier]), 4)
    assert packed_records.pack(words, WORDS) is None
