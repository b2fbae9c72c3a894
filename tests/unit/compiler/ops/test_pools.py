# SPDX-License-Identifier: Apache-2.0
"""Pools whose window is larger than their input."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.codegen.host import host_target
from compiler.isa import load_isa
from compiler.ops import operators
from compiler.ops.definition import OperatorView
from compiler.ops.geometry import Padding
from compiler.ops.pooling import PoolAttributes, bands

from .build import evaluate, refusal, tensor, view

HEIGHT, WIDTH = 4, 5
IMAGE = np.random.default_rng(3).integers(-128, 128, (1, HEIGHT, WIDTH, 3)).astype(np.int8)


def pool(op: str, window: tuple[int, int], strides: tuple[int, int], padding: Padding = Padding.SAME) -> OperatorView:
    output = (-(-HEIGHT // strides[0]), -(-WIDTH // strides[1]))
    attributes = PoolAttributes(padding, *strides, *window)
    return view(op, [tensor(0, IMAGE.shape)], tensor(1, (1, *output, 3)), attributes)


@pytest.mark.parametrize("strides", [(1, 1), (2, 1), (3, 2), (4, 5), (7, 9)])
@pytest.mark.parametrize("window", [(8, 10), (9, 11), (100, 10), (2**31 - 1, 2**31 - 1)])
def test_a_window_of_twice_the_input_covers_all_of_it(window: tuple[int, int], strides: tuple[int, int]) -> None:
    largest = pool("MAX_POOL_2D", window, strides)
    assert refusal(largest) is None
    assert np.array_equal(evaluate(largest, IMAGE), np.broadcast_to(IMAGE.max((1, 2)), largest.output().shape))
    mean = pool("AVERAGE_POOL_2D", window, strides)
    assert refusal(mean) is None
    total = IMAGE.astype(int).sum((1, 2))
    rounded = np.sign(total) * ((np.abs(total) + HEIGHT * WIDTH // 2) // (HEIGHT * WIDTH))
    assert np.array_equal(evaluate(mean, IMAGE), np.broadcast_to(rounded, mean.output().shape))


@pytest.mark.parametrize("op", ["MAX_POOL_2D", "AVERAGE_POOL_2D"])
def test_larger_ones_are_the_same_code(op: str) -> None:
    isa = load_isa(host_target())
    twice, larger = (pool(op, window, (2, 1)) for window in ((8, 10), (1000, 77)))
    assert operators()[op].lower(larger, isa) == operators()[op].lower(twice, isa)
    assert bands(twice, range(1)) is not None
    assert bands(larger, range(1)) is None


def test_sizes_that_cannot_be() -> None:
    assert "window (9, 5)" in str(refusal(pool("MAX_POOL_2D", (9, 5), (1, 1), Padding.VALID)))
    assert "output [1, 4, 5, 3]" in str(refusal(pool("MAX_POOL_2D", (5, 5), (1, 1), Padding.VALID)))
    assert "window (0, 5)" in str(refusal(pool("MAX_POOL_2D", (0, 5), (1, 1))))
