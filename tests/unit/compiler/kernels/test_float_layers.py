# SPDX-License-Identifier: Apache-2.0
"""Float layers on emulated cores give the reference's bits, with and without a float unit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler import float_numerics
from compiler.errors import UserError
from compiler.graph import DType
from compiler.kernels.floats import layers as float_layers
from compiler.kernels.portable import window_lowering
from compiler.kernels.problems import FloatLayer, Window
from tests.harness import run_layer

SLOWER = ("cortex-m4f", "rv32imac")
CORES = ("cortex-m0", "rv32imafc", *(pytest.param(core, marks=pytest.mark.sweep) for core in SLOWER))
INFINITE = float("inf")

CONVOLUTIONS = {
    "same": (Window(7, 9, 3, 7, 9, 6, 3, 3, 1, 1, 1, 1), 3, 0.0, INFINITE),
    "stride": (Window(9, 10, 2, 5, 5, 5, 3, 4, 2, 2, 1, 1), 2, 0.0, 6.0),
    "dilated": (Window(9, 9, 2, 9, 9, 4, 3, 2, 1, 1, 2, 1, 2, 2), 2, -1.0, 1.0),
    "grouped": (Window(5, 6, 6, 3, 4, 9, 3, 3, 1, 1, 0, 0), 2, -INFINITE, INFINITE),
    "pointwise": (Window(4, 5, 7, 4, 5, 13, 1, 1, 1, 1, 0, 0), 7, 0.0, INFINITE),
    "one output": (Window(3, 3, 4, 1, 1, 11, 3, 3, 1, 1, 0, 0), 4, -INFINITE, INFINITE),
}
DEPTHWISE = {
    "same": (Window(6, 8, 7, 6, 8, 7, 3, 3, 1, 1, 1, 1), 0.0, INFINITE),
    "stride": (Window(9, 9, 4, 5, 5, 4, 3, 3, 2, 2, 1, 1), 0.0, 6.0),
    "multiplier": (Window(6, 6, 3, 6, 6, 6, 3, 3, 1, 1, 1, 1), -INFINITE, INFINITE),
    "one channel": (Window(8, 7, 1, 4, 4, 8, 5, 4, 2, 2, 2, 1), 0.0, INFINITE),
    "dilated": (Window(8, 8, 5, 8, 8, 5, 3, 3, 1, 1, 2, 2, 2, 2), -1.0, 1.0),
}


def values(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def check(core: str, lowered: object, x: np.ndarray, expected: np.ndarray, folder: Path) -> None:
    ((found,),) = run_layer(core, lowered, [[x]], [(DType.FLOAT32, expected.shape)], folder)  # type: ignore[arg-type]
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolution(core: str, case: str, tmp_path: Path) -> None:
    w, depth, low, high = CONVOLUTIONS[case]
    weights = values((w.output_channels, w.kernel_height, w.kernel_width, depth), 1)
    layer = FloatLayer(w, weights, values((w.output_channels,), 2), low, high)
    x = values((w.input_height, w.input_width, w.input_channels), 3)
    check(core, float_layers.conv_2d(layer), x, float_numerics.conv_2d(layer, x), tmp_path)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("case", DEPTHWISE)
def test_depthwise(core: str, case: str, tmp_path: Path) -> None:
    w, low, high = DEPTHWISE[case]
    weights = values((w.kernel_height, w.kernel_width, w.output_channels), 4)
    layer = FloatLayer(w, weights, values((w.output_channels,), 5), low, high, depthwise=True)
    x = values((w.input_height, w.input_width, w.input_channels), 6)
    check(core, float_layers.depthwise_conv_2d(layer), x, float_numerics.depthwise_conv_2d(layer, x), tmp_path)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(("batches", "depth", "outputs"), [(1, 20, 19), (6, 5, 7), (2, 3, 1)])
def test_fully_connected(core: str, batches: int, depth: int, outputs: int, tmp_path: Path) -> None:
    w = Window(1, batches, depth, 1, batches, outputs, 1, 1, 1, 1, 0, 0)
    layer = FloatLayer(w, values((outputs, depth), 7), values((outputs,), 8), -INFINITE, INFINITE)
    x = values((batches, depth), 9)
    check(core, float_layers.fully_connected(layer), x, float_numerics.fully_connected(layer, x), tmp_path)


SPECIAL = np.array(
    [
        np.nan,
        -np.nan,
        np.inf,
        -np.inf,
        0.0,
        -0.0,
        1.0,
        -1.0,
        6.0,
        6.0000005,
        3.4028235e38,
        -3.4028235e38,
        1e-45,
        -1e-45,
    ],
    np.float32,
)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(("low", "high"), [(-INFINITE, INFINITE), (0.0, INFINITE), (0.0, 6.0), (-1.0, 1.0)])
def test_clamps_treat_special_values_as_the_reference(core: str, low: float, high: float, tmp_path: Path) -> None:
    w = Window(1, len(SPECIAL), 1, 1, len(SPECIAL), 1, 1, 1, 1, 1, 0, 0)
    layer = FloatLayer(w, np.ones((1, 1), np.float32), np.zeros(1, np.float32), low, high)
    x = SPECIAL[:, None]
    expected = float_numerics.fully_connected(layer, x)
    ((found,),) = run_layer(
        core, float_layers.fully_connected(layer), [[x]], [(DType.FLOAT32, expected.shape)], tmp_path
    )
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(found[known].view(np.uint32), expected[known].view(np.uint32))


def test_a_window_of_padding_alone_is_refused() -> None:
    with pytest.raises(UserError, match="nothing but padding"):
        window_lowering.runs(outputs=1, cells=1, kernel=2, stride=1, padding=1, dilation=3)
