# SPDX-License-Identifier: Apache-2.0
"""Helium pools under QEMU against the operators' references, and the proof of the 16-bit division."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.graph import DType
from compiler.isa.mve import Mve
from compiler.kernels.mve.pools import MOST_CELLS, reciprocal
from compiler.kernels.portable.loops import Element
from compiler.kernels.portable.pools import average_pool, max_pool
from compiler.kernels.problems import Window
from compiler.ops.pooling import average_reference, cells, max_reference
from tests.harness import run_layer


def test_the_reciprocal_divides_every_sum() -> None:
    sums = np.arange(1 << 15, dtype=np.int64)
    for count in range(1, MOST_CELLS + 1):
        multiplier, shift = reciprocal(count)
        assert 0 < multiplier < 1 << 16
        np.testing.assert_array_equal((2 * sums * multiplier >> 16) >> shift, sums // count)


@pytest.mark.parametrize(
    ("channels", "kernel", "stride", "pad", "bounds"),
    [
        (16, (2, 2), (2, 2), (0, 0), None),
        (5, (3, 3), (2, 1), (1, 1), (-20, 33)),
        (24, (7, 8), (1, 1), (0, 0), None),
        (35, (3, 2), (1, 2), (1, 0), (-128, 40)),
        (9, (1, 1), (2, 2), (0, 0), None),
    ],
)
@pytest.mark.parametrize("kind", ["max", "average"])
def test_pools(
    kind: str,
    channels: int,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pad: tuple[int, int],
    bounds: tuple[int, int] | None,
    tmp_path: Path,
) -> None:
    height, width = 7, 8
    outputs = [(n + 2 * p - k) // s + 1 for n, p, k, s in zip((height, width), pad, kernel, stride, strict=True)]
    w = Window(height, width, channels, outputs[0], outputs[1], channels, *kernel, *stride, *pad)
    rng = np.random.default_rng(channels)
    shape = (height, width, channels)
    rows = [
        [rng.integers(-128, 128, shape).astype(np.int8)],
        [np.full(shape, -128, np.int8)],
        [np.full(shape, 127, np.int8)],
        [rng.integers(-2, 2, shape).astype(np.int8)],
    ]
    lower, reference = (max_pool, max_reference) if kind == "max" else (average_pool, average_reference)
    lowered = lower(Mve(), w, Element.INT8, bounds)
    assert all("_mve" in call.kernel.name for call in lowered.calls)
    found = run_layer("cortex-m55", lowered, rows, [(DType.INT8, (*outputs, channels))], tmp_path)
    for (x,), (y,) in zip(rows, found, strict=True):
        expected = reference(*cells(x, w)).reshape(*outputs, channels)
        np.testing.assert_array_equal(y, expected if bounds is None else np.clip(expected, *bounds))
