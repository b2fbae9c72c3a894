# SPDX-License-Identifier: Apache-2.0
"""Hybrid layers on emulated cores give the reference's bits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compiler import hybrid_numerics
from compiler.graph import DType
from compiler.kernels.hybrid import layers as hybrid_layers
from compiler.kernels.kernel import Lowered
from compiler.kernels.problems import HybridLayer, Window
from tests.harness import isa_of, run_layer

SLOWER = ("cortex-m4f", "rv32imac", "rv32ec")
CORES = ("cortex-m0", "rv32imafc", *(pytest.param(core, marks=pytest.mark.sweep) for core in SLOWER))
INFINITE = float("inf")
SAME = Window(7, 9, 3, 7, 9, 6, 3, 3, 1, 1, 1, 1)
SCALINGS = {"uniform": (False, False), "product": (True, False), "channel first": (True, True)}


def layer(window: Window, shape: tuple[int, ...], scaling: str) -> HybridLayer:
    rng = np.random.default_rng(sum(shape))
    asymmetric, channel_first = SCALINGS[scaling]
    outputs = window.output_channels
    scales = rng.uniform(0.001, 0.01, outputs if asymmetric else 1).astype(np.float32)
    weights = rng.integers(-127, 128, shape).astype(np.int8)
    bias = rng.normal(size=outputs).astype(np.float32)
    return HybridLayer(window, weights, bias, scales, asymmetric, channel_first, 0.0, INFINITE)


def images(window: Window) -> list[np.ndarray]:
    """Values of both signs, of one sign, and zeros."""
    shape = (window.input_height, window.input_width, window.input_channels)
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    return [x, np.abs(x) * np.float32(9), -np.abs(x) * np.float32(1e-3), np.zeros_like(x)]


def check(core: str, lowered: Lowered, rows: list[np.ndarray], expected: list[np.ndarray], folder: Path) -> None:
    found = run_layer(core, lowered, [[x] for x in rows], [(DType.FLOAT32, expected[0].shape)], folder)
    for (output,), wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(output.view(np.uint32), wanted.view(np.uint32))


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("scaling", SCALINGS)
def test_convolution(core: str, scaling: str, tmp_path: Path) -> None:
    one = layer(SAME, (6, 3, 3, 3), scaling)
    rows = images(SAME)
    lowered = hybrid_layers.conv_2d(one, isa_of(core))
    check(core, lowered, rows, [hybrid_numerics.conv_2d(one, x) for x in rows], tmp_path)


@pytest.mark.parametrize("core", ["cortex-m0", "rv32imafc"])
def test_grouped_convolution(core: str, tmp_path: Path) -> None:
    window = replace(SAME, input_channels=4)
    one = layer(window, (6, 3, 3, 2), "channel first")
    rows = images(window)
    lowered = hybrid_layers.conv_2d(one, isa_of(core))
    check(core, lowered, rows, [hybrid_numerics.conv_2d(one, x) for x in rows], tmp_path)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("channels", [3, 6])
def test_depthwise(core: str, channels: int, tmp_path: Path) -> None:
    window = replace(SAME, input_channels=channels)
    one = layer(window, (3, 3, 6), "product")
    rows = images(window)
    lowered = hybrid_layers.depthwise_conv_2d(one, isa_of(core))
    check(core, lowered, rows, [hybrid_numerics.depthwise_conv_2d(one, x) for x in rows], tmp_path)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("scaling", SCALINGS)
def test_fully_connected(core: str, scaling: str, tmp_path: Path) -> None:
    window = Window(1, 1, 37, 1, 1, 11, 1, 1, 1, 1, 0, 0)
    one = layer(window, (11, 37), scaling)
    rows = [x.reshape(1, -1) for x in images(window)]
    lowered = hybrid_layers.fully_connected(one, isa_of(core))
    check(core, lowered, rows, [hybrid_numerics.fully_connected(one, x) for x in rows], tmp_path)
