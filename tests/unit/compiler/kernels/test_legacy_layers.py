# SPDX-License-Identifier: Apache-2.0
"""Kernels of legacy uint8 layers under QEMU, and the proof of the fully connected layer's rescaling."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler import numerics
from compiler.graph import DType
from compiler.kernels.portable import byte_fully_connected, nine_bit_layers
from compiler.kernels.portable.byte_fully_connected import ByteFullyConnected
from compiler.kernels.portable.loops import Element
from compiler.kernels.portable.pools import average_pool
from compiler.kernels.problems import Conv2D, DepthwiseConv2D, Requantization, Window
from compiler.ops.pooling import average_reference, cells
from tests.harness import isa_of, run_layer

CORES = ("cortex-m0", "cortex-m4", "rv32imac")


def requantization(channels: int) -> Requantization:
    pairs = np.array([numerics.quantize_multiplier(0.003 + 0.001 * c) for c in range(channels)], np.int64)
    return Requantization(pairs[:, 0], pairs[:, 1], -20, -100, 120)


def wide_weights(rng: np.random.Generator, shape: tuple[int, ...], axis: int, channels: tuple[int, ...]) -> np.ndarray:
    """int8 weights, of which the named channels have one beyond."""
    weights = rng.integers(-128, 128, shape).astype(np.int16)
    for number, channel in enumerate(channels):
        taps = np.moveaxis(weights, axis, 0)[channel]
        taps.flat[number % taps.size] = (-255, 255, 128, -129)[number % 4]
    return weights


WINDOWS = {
    "same": Window(6, 5, 4, 6, 5, 6, 3, 3, 1, 1, 1, 1),
    "stride": Window(6, 5, 4, 3, 2, 6, 3, 2, 2, 2, 1, 0),
    "dilation": Window(6, 7, 4, 6, 7, 6, 3, 3, 1, 1, 2, 2, 2, 2),
    "pointwise": Window(3, 3, 4, 3, 3, 6, 1, 1, 1, 1, 0, 0),
}


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("channels", [(2, 5), (0, 1, 3, 4)])
def test_convolution(core: str, kind: str, channels: tuple[int, ...], tmp_path: Path) -> None:
    rng, w = np.random.default_rng(1), WINDOWS[kind]
    weights = wide_weights(rng, (6, w.kernel_height, w.kernel_width, 4), 0, channels)
    layer = Conv2D(w, weights, rng.integers(-9999, 9999, 6), 7, requantization(6))
    x = rng.integers(-128, 128, (w.input_height, w.input_width, 4)).astype(np.int8)
    shape = (w.output_height, w.output_width, 6)
    found = run_layer(core, nine_bit_layers.conv_2d(isa_of(core), layer), [[x]], [(DType.INT8, shape)], tmp_path)
    np.testing.assert_array_equal(found[0][0], numerics.conv_2d(layer, x))


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("inputs", [6, 3])
def test_depthwise_convolution(core: str, kind: str, inputs: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    base = WINDOWS[kind]
    w = Window(base.input_height, base.input_width, inputs, *list(vars(base).values())[3:])
    weights = wide_weights(rng, (w.kernel_height, w.kernel_width, 6), 2, (1, 4))
    layer = DepthwiseConv2D(w, weights, rng.integers(-999, 999, 6), -9, requantization(6))
    x = rng.integers(-128, 128, (w.input_height, w.input_width, inputs)).astype(np.int8)
    lowered = nine_bit_layers.depthwise_conv_2d(isa_of(core), layer)
    found = run_layer(core, lowered, [[x]], [(DType.INT8, (w.output_height, w.output_width, 6))], tmp_path)
    np.testing.assert_array_equal(found[0][0], numerics.depthwise_conv_2d(layer, x))


@pytest.mark.parametrize("core", CORES)
def test_average_with_ties_up(core: str, tmp_path: Path) -> None:
    w = Window(5, 5, 3, 3, 3, 3, 2, 2, 2, 2, 0, 0)
    x = np.random.default_rng(3).integers(-128, 128, (5, 5, 3)).astype(np.int8)
    lowered = average_pool(isa_of(core), w, Element.INT8, None, ties_up=True)
    found = run_layer(core, lowered, [[x]], [(DType.INT8, (3, 3, 3))], tmp_path)
    expected = average_reference(*cells(x, w), ties_up=True).reshape(3, 3, 3)
    np.testing.assert_array_equal(found[0][0], expected)
    assert (expected != average_reference(*cells(x, w)).reshape(3, 3, 3)).any()


def byte_layer(scale: float, zero_point: int = -18, bounds: tuple[int, int] = (-128, 127)) -> ByteFullyConnected:
    rng = np.random.default_rng(4)
    weights = rng.integers(-128, 128, (5, 16)).astype(np.int8)
    return ByteFullyConnected(3, weights, rng.integers(-99, 99, 5), -6, 11, scale, zero_point, *bounds)


@pytest.mark.parametrize("scale", [0.5, 0.25, 2.0**-9, 0.0049999998, 1 / 3, 0.0013, 1e-6])
@pytest.mark.parametrize("zero_point", [-128, -18, 127])
def test_the_rescaling_is_exact_for_every_sum(scale: float, zero_point: int) -> None:
    layer = byte_layer(scale, zero_point)
    found = byte_fully_connected.scaling(layer)
    assert found is not None
    sums = np.arange(-layer.greatest_sum, layer.greatest_sum + 1, dtype=np.int64)
    real = sums * scale
    expected = np.copysign(np.floor(np.abs(real) + 0.5), real).astype(np.int64)
    got = ((sums << found.left) * found.multiplier + found.constant - (sums < 0)) >> found.shift
    clipped = (np.clip(values + zero_point, layer.minimum, layer.maximum) for values in (got, expected))
    np.testing.assert_array_equal(*clipped)


def test_sums_beyond_32_bits_have_no_rescaling() -> None:
    layer = byte_layer(0.5)
    beyond = ByteFullyConnected(1, layer.weights, layer.bias + (1 << 31), 0, 0, 0.5, 0, -128, 127)
    assert byte_fully_connected.scaling(beyond) is None


@pytest.mark.parametrize("core", (*CORES, "rv32ec"))
@pytest.mark.parametrize("scale", [0.5, 2.0**-9, 0.0049999998])
def test_fully_connected(core: str, scale: float, tmp_path: Path) -> None:
    layer = byte_layer(scale, bounds=(-60, 100))
    x = np.random.default_rng(5).integers(-128, 128, (3, 16)).astype(np.int8)
    lowered = byte_fully_connected.lower(isa_of(core), layer)
    found = run_layer(core, lowered, [[x]], [(DType.INT8, (3, 5))], tmp_path)
    np.testing.assert_array_equal(found[0][0], byte_fully_connected.reference(layer, x))


@pytest.mark.parametrize("channels", [(), (1,)])
def test_each_alternative_of_the_core_is_corrected(channels: tuple[int, ...]) -> None:
    rng, isa, w = np.random.default_rng(6), isa_of("cortex-m4"), Window(8, 8, 16, 8, 8, 16, 3, 3, 1, 1, 1, 1)
    weights = wide_weights(rng, (16, 3, 3, 16), 0, channels)
    layer = Conv2D(w, weights, np.zeros(16, np.int64), 7, requantization(16))
    found = nine_bit_layers.conv_2d(isa, layer)
    plain = isa.conv_2d(Conv2D(w, weights.clip(-128, 127).astype(np.int8), layer.bias, 7, layer.requantization))
    assert found.instructions == plain.instructions
    assert len(found.alternatives) == len(plain.alternatives) > 0
    for ours, own in zip((found, *found.alternatives), (plain, *plain.alternatives), strict=True):
        assert len(ours.calls) == len(own.calls) + len(channels)
