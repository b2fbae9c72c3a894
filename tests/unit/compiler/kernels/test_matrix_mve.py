# SPDX-License-Identifier: Apache-2.0
"""Helium fully connected layers and sums under QEMU against the NumPy reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler import numerics
from compiler.graph import DType
from compiler.kernels.kernel import Place, Role
from compiler.kernels.portable.linear import Function, fit
from compiler.kernels.problems import FullyConnected, IntegerSum
from tests.harness import run_layer
from tests.unit.compiler.kernels.mve_layers import CORE, ISA, Array, inputs_of, requantization, weights_of


@pytest.mark.parametrize(
    ("batches", "depth", "outputs", "filter_zero_point", "kind"),
    [
        (1, 640, 12, 0, "relu"),
        (1, 128, 9, 0, "none"),
        (2, 33, 7, -9, "n1"),
        (1, 171, 3, 0, "zero"),
        (3, 8, 5, 0, "left"),
        (6, 20, 6, 0, "ties"),
        (5, 17, 10, 100, "relu6"),
        (1, 144, 4, -128, "ties"),
        (1, 1, 1, 0, "none"),
    ],
)
def test_fully_connected(
    batches: int, depth: int, outputs: int, filter_zero_point: int, kind: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(depth)
    weights = weights_of(rng, (outputs, depth + 1))[:, :depth]
    spread = np.sqrt((weights.astype(np.float64) ** 2).sum(axis=1)) * 70 + 1
    bias = np.round(rng.normal(size=outputs) * spread * 0.3).astype(np.int64)
    layer = FullyConnected(
        batches, weights, bias, int(rng.integers(-128, 128)), filter_zero_point, requantization(rng, spread, kind)
    )
    rows = inputs_of(rng, (batches, depth), weights[0])
    found = run_layer(CORE, ISA.fully_connected(layer), rows, [(DType.INT8, (batches, outputs))], tmp_path)
    for (x,), (y,) in zip(rows, found, strict=True):
        np.testing.assert_array_equal(y, numerics.fully_connected(layer, x))


@pytest.mark.parametrize(
    ("count", "scales", "zero_points", "subtract", "clamp", "linear"),
    [
        (37, (0.05, 0.03, 0.06), (3, -7, 11), False, (-128, 127), True),
        (1, (0.05, 0.03, 0.06), (3, -7, 11), False, (-128, 127), False),
        (64, (0.011, 0.37, 0.3), (-128, 127, -4), True, (-20, 90), False),
        (1002, (0.02, 0.02, 0.02), (-128, -128, -128), False, (-128, 127), True),
        (30, (0.02, 0.02, 0.02), (5, 0, -9), True, (-128, 127), False),
    ],
)
def test_integer_sum(
    count: int,
    scales: tuple[float, float, float],
    zero_points: tuple[int, int, int],
    subtract: bool,
    clamp: tuple[int, int],
    linear: bool,
    tmp_path: Path,
) -> None:
    twice = 2 * max(scales[:2])
    multipliers = tuple(
        numerics.quantize_multiplier(v) for v in (scales[0] / twice, scales[1] / twice, twice / (scales[2] * (1 << 20)))
    )
    sign = -1 if subtract else 1

    def exact(a: Array, b: Array) -> Array:
        first, second = (
            numerics.multiply_by_quantized_multiplier((x.astype(np.int64) - zero) << 20, *by)
            for x, zero, by in zip((a, b), zero_points[:2], multipliers[:2], strict=True)
        )
        total = numerics.multiply_by_quantized_multiplier(first + sign * second, *multipliers[2])
        return np.clip(total + zero_points[2], *clamp)

    everything = np.arange(-128, 128)
    domains = (everything[:, None], everything[None, :])
    ratios = (scales[0] / scales[2], sign * scales[1] / scales[2])
    form = fit(Function(domains, exact(*domains), ratios, zero_points[:2], zero_points[2], *clamp)) if linear else None
    assert (form is not None) == linear
    layer = IntegerSum(
        Place(Role.INPUT, 0),
        Place(Role.INPUT, 1),
        count,
        subtract,
        zero_points,
        (multipliers[0], multipliers[1], multipliers[2]),
        form,
        *clamp,
    )
    rng = np.random.default_rng(count)
    rows = [[rng.integers(-128, 128, count).astype(np.int8) for _ in range(2)] for _ in range(3)]
    found = run_layer(CORE, ISA.integer_sum(layer), rows, [(DType.INT8, (count,))], tmp_path)
    for (a, b), (y,) in zip(rows, found, strict=True):
        np.testing.assert_array_equal(y, exact(a, b))
