# SPDX-License-Identifier: Apache-2.0
"""The plain int8 kernel, run on this machine, against the reference: every geometry, zero point, shift and clamp."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.codegen.host import host_target
from compiler.graph import DType
from compiler.isa import load_isa
from compiler.kernels.problems import Conv2D, DepthwiseConv2D, FullyConnected, Requantization, Window
from compiler.numerics import conv_2d, depthwise_conv_2d, fully_connected
from tests.harness import run_layer

ISA: Any = load_isa(host_target())
GEOMETRIES = [
    Window(5, 4, 3, 5, 4, 4, 3, 3, 1, 1, 1, 1),
    Window(7, 6, 2, 3, 3, 5, 3, 2, 2, 2, 0, 0),
    Window(6, 7, 3, 6, 7, 2, 3, 3, 1, 1, 2, 2, 2, 2),
    Window(4, 4, 1, 4, 4, 3, 1, 1, 1, 1, 0, 0),
    Window(3, 3, 2, 5, 5, 2, 1, 1, 1, 1, 1, 1),
]


def requantization(random: np.random.Generator, channels: int, minimum: int = -128, maximum: int = 127) -> Any:
    multipliers = random.integers(1 << 30, 1 << 31, channels).astype(np.int64)
    return Requantization(multipliers, random.integers(-9, 2, channels).astype(np.int64), -7, minimum, maximum)


@pytest.mark.parametrize("window", GEOMETRIES)
def test_conv_2d(window: Window, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    w = window
    shape = (w.output_channels, w.kernel_height, w.kernel_width, w.input_channels)
    bias = random.integers(-1000, 1000, w.output_channels)
    layer = Conv2D(w, _bytes(random, shape), bias, -128, requantization(random, w.output_channels, -100, 90))
    x = _bytes(random, (w.input_height, w.input_width, w.input_channels))
    outputs = run_layer("host", ISA.conv_2d(layer), [[x]], [(DType.INT8, _output(w))], tmp_path)
    np.testing.assert_array_equal(outputs[0][0], conv_2d(layer, x))


@pytest.mark.parametrize("window", GEOMETRIES)
@pytest.mark.parametrize("multiplier", [1, 3])
def test_depthwise_conv_2d(window: Window, multiplier: int, tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    w = Window(**{**vars(window), "output_channels": window.input_channels * multiplier})
    weights = _bytes(random, (w.kernel_height, w.kernel_width, w.output_channels))
    bias = random.integers(-1000, 1000, w.output_channels)
    layer = DepthwiseConv2D(w, weights, bias, 127, requantization(random, w.output_channels))
    x = _bytes(random, (w.input_height, w.input_width, w.input_channels))
    outputs = run_layer("host", ISA.depthwise_conv_2d(layer), [[x]], [(DType.INT8, _output(w))], tmp_path)
    np.testing.assert_array_equal(outputs[0][0], depthwise_conv_2d(layer, x))


def test_fully_connected_with_a_filter_zero_point(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    bias = random.integers(-(1 << 30), 1 << 30, 6)
    layer = FullyConnected(4, _bytes(random, (6, 9)), bias, 3, -128, requantization(random, 6))
    x = _bytes(random, (4, 9))
    outputs = run_layer("host", ISA.fully_connected(layer), [[x]], [(DType.INT8, (4, 6))], tmp_path)
    np.testing.assert_array_equal(outputs[0][0], fully_connected(layer, x))


def _bytes(random: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return random.integers(-128, 128, shape).astype(np.int8)


def _output(w: Window) -> tuple[int, ...]:
    return (w.output_height, w.output_width, w.output_channels)
