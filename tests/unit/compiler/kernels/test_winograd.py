# SPDX-License-Identifier: Apache-2.0
"""Exact Winograd convolutions against the reference's arithmetic: transforms in NumPy, kernels under QEMU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from compiler import numerics
from compiler.graph import DType
from compiler.kernels.kernel import Lowered
from compiler.kernels.problems import Conv2D, Requantization, Window
from compiler.kernels.winograd import lowering_dsp as winograd_lowering_dsp
from compiler.kernels.winograd import lowering_scalar as winograd_lowering_scalar
from compiler.kernels.winograd.arithmetic import F2, F4, Transform
from compiler.kernels.winograd.lowering_scalar import WinogradShape
from tests.harness import isa_of, run_layer


@dataclass(frozen=True)
class Case:
    """A 3x3 layer; weights come from the seed. `pad`: top, bottom, left, right; `gain` divides the outputs."""

    height: int
    width: int
    channels: int
    outputs: int
    pad: tuple[int, int, int, int] = (1, 1, 1, 1)
    input_zero_point: int = -128
    zero_point: int = -128
    clamp: tuple[int, int] = (-128, 127)
    gain: float = 1.0
    uneven: bool = False
    seed: int = 0

    @property
    def layer(self) -> Conv2D:
        rng, (top, bottom, left, right) = np.random.default_rng(self.seed), self.pad
        rows, columns = self.height + top + bottom - 2, self.width + left + right - 2
        sizes = (self.height, self.width, self.channels, rows, columns, self.outputs)
        window = Window(*sizes, 3, 3, 1, 1, top, left)
        weights = rng.integers(-128, 128, (self.outputs, 3, 3, self.channels)).astype(np.int8)
        weights[0], weights[-1] = 127, -128
        spread = np.sqrt((weights.astype(float) ** 2).sum((1, 2, 3))) * 74
        bias = np.round(rng.normal(size=self.outputs) * spread * 0.3).astype(np.int64)
        scales = 60 / self.gain * rng.uniform(0.5, 2, self.outputs) / spread
        if self.uneven:
            scales *= 2.0 ** rng.integers(-3, 1, self.outputs)
        pairs = np.array([numerics.quantize_multiplier(float(s)) for s in scales], np.int64)
        requantization = Requantization(pairs[:, 0], pairs[:, 1], self.zero_point, *self.clamp)
        return Conv2D(window, weights, bias, self.input_zero_point, requantization)


CASES = {
    "16 channels": Case(8, 8, 16, 16),
    "no activation": Case(8, 12, 8, 8, input_zero_point=-5, zero_point=3, seed=1),
    "clamp": Case(8, 8, 8, 6, zero_point=-20, clamp=(-20, 95), input_zero_point=7, seed=2),
    "odd sizes": Case(9, 11, 12, 5, input_zero_point=127, zero_point=-128, seed=3),
    "no padding": Case(10, 13, 8, 4, pad=(0, 0, 0, 0), input_zero_point=-3, zero_point=1, seed=4),
    "one side padded": Case(9, 9, 4, 3, pad=(0, 1, 0, 1), input_zero_point=11, zero_point=-7, seed=5),
    "uneven scales": Case(8, 8, 8, 8, uneven=True, input_zero_point=-1, zero_point=-1, seed=6),
    "72 channels": Case(8, 8, 72, 4, gain=1.3, input_zero_point=-128, zero_point=-128, seed=7),
    "two rows wide padding": Case(6, 7, 8, 4, pad=(2, 2, 2, 2), input_zero_point=-77, zero_point=9, seed=8),
}


def rows_of(layer: Conv2D) -> list[NDArray[np.int8]]:
    """Random, all at either end, and along or against the signs of an output channel's weights at every third pixel."""
    w, rng = layer.window, np.random.default_rng(9)
    shape = (w.input_height, w.input_width, w.input_channels)
    rows = [rng.integers(-128, 128, shape).astype(np.int8)]
    rows += [np.full(shape, value, np.int8) for value in (-128, 127)]
    for channel in (0, w.output_channels - 1, w.output_channels // 2):
        signs = np.where(layer.weights[channel] > 0, 127, -128).astype(np.int8)
        pattern = np.tile(signs, (w.input_height // 3 + 1, w.input_width // 3 + 1, 1))[: shape[0], : shape[1]]
        rows += [pattern, ~pattern]
    return rows


def check(core: str, layer: Conv2D, lowered: Lowered, folder: Path) -> None:
    w, rows = layer.window, rows_of(layer)
    shape = (w.output_height, w.output_width, w.output_channels)
    found = run_layer(core, lowered, [[row] for row in rows], [(DType.INT8, shape)], folder)
    for row, (output,) in zip(rows, found, strict=True):
        np.testing.assert_array_equal(output, numerics.conv_2d(layer, row))


@pytest.mark.parametrize("transform", [F2, F4], ids=["F2", "F4"])
def test_transforms_are_exact(transform: Transform) -> None:
    """G g G^T and the transforms that the kernels emit, here as matrices, give factor * 2^(e + e) * the convolution."""
    rng, size, tile = np.random.default_rng(0), transform.size, transform.tile
    forward = np.stack([apply(transform.forward, row, 0) for row in np.eye(size, dtype=np.int64)], 1)
    backward = np.stack([apply(transform.backward, row) for row in np.eye(size, dtype=np.int64)], 1)
    weights = rng.integers(-128, 128, (1, 3, 3, 1)).astype(np.int8)
    data = rng.integers(0, 256, (size, size))
    u = transform.transform_weights(weights).reshape(size, size)
    result = backward @ (u * (forward @ data @ forward.T)) @ backward.T
    windows = np.lib.stride_tricks.sliding_window_view(data, (3, 3))
    plain = (windows * weights[0, :, :, 0].astype(np.int64)).sum((2, 3))
    exponents = np.array(transform.exponents)
    np.testing.assert_array_equal(result, plain * transform.factor << (exponents[:, None] + exponents))
    bias = np.zeros((size, size), np.int64)
    bias.flat[transform.bias_position] = transform.bias
    moved = backward @ bias @ backward.T
    np.testing.assert_array_equal(
        moved, transform.factor * np.ones((tile, tile)) * 2 ** (exponents[:, None] + exponents)
    )
    assert transform.factor * transform.inverse % 2**32 == 1


@pytest.mark.parametrize("transform", [F2, F4], ids=["F2", "F4"])
def test_ranges_fit_int16(transform: Transform) -> None:
    """Transformed inputs of 0..255, the low ones with their offset not negative, and weights stay within int16."""
    forward = np.stack([apply(transform.forward, row, 0) for row in np.eye(transform.size, dtype=np.int64)], 1)
    both = np.kron(forward, forward)
    greatest, least = np.maximum(both, 0).sum(1).max() * 255, np.minimum(both, 0).sum(1).min() * 255
    assert least + transform.offset >= 0
    assert greatest + transform.offset < 1 << 15
    assert least >= -(1 << 15)
    weights = np.kron(transform.weights, transform.weights)
    assert np.abs(weights).sum(1).max() * 128 < 1 << 15


class _Numbers:
    """The few operations of transforms, on numbers."""

    def add(self, a: int, b: int) -> int:
        return a + b

    def sub(self, a: int, b: int) -> int:
        return a - b

    def shl(self, a: int, b: int) -> int:
        return a << b


def apply(function: Callable[..., list[int]], values: NDArray[np.int64], *rest: int) -> list[int]:
    return function(_Numbers(), [int(value) for value in values], *rest)


@pytest.mark.parametrize(("tile", "tiles"), [(4, 2), (4, 1), (2, 2), (2, 1)])
@pytest.mark.parametrize("name", CASES)
def test_dsp(name: str, tile: int, tiles: int, tmp_path: Path) -> None:
    layer = CASES[name].layer
    lowered = winograd_lowering_dsp.lower(layer, tile, tiles)
    if layer.window.output_width < tile * tiles:
        assert lowered is None
        return
    assert lowered is not None
    check("cortex-m4", layer, lowered, tmp_path)


@pytest.mark.parametrize(("tiles", "strip"), [(2, 1), (1, 1), (1, 2)])
@pytest.mark.parametrize("name", CASES)
def test_dsp_weights_on_the_fly(name: str, tiles: int, strip: int, tmp_path: Path) -> None:
    layer = CASES[name].layer
    lowered = winograd_lowering_dsp.lower(layer, 4, tiles, strip)
    if layer.window.output_width < 4 * tiles or layer.window.output_height < 4 * strip:
        assert lowered is None
        return
    assert lowered is not None
    check("cortex-m4", layer, lowered, tmp_path)


def _scalar(core: str, layer: Conv2D, shape: WinogradShape, lookup: bool = False) -> Lowered | None:
    isa = isa_of(core)
    return winograd_lowering_scalar.lower(isa.core, layer, shape, isa.winograd, lookup)


SCALAR = [(core, shape) for core in ("rv32imac", "cortex-m0", "cortex-m3") for shape in isa_of(core).winograd.shapes]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("core", "shape"), [next(s for s in SCALAR if s[0] == c) for c in ("rv32imac", "cortex-m0")])
def test_scalar(core: str, shape: WinogradShape, name: str, tmp_path: Path) -> None:
    """Every case, in the form with the largest group that the case's width allows."""
    layer = CASES[name].layer
    while layer.window.output_width < shape.tile * shape.tiles:
        shape = replace(shape, tiles=shape.tiles // 2)
    channels = min(shape.channels, layer.window.output_channels)
    lowered = _scalar(core, layer, replace(shape, channels=channels))
    assert lowered is not None
    check(core, layer, lowered, tmp_path)


@pytest.mark.parametrize(("core", "shape"), SCALAR)
def test_scalar_shapes(core: str, shape: WinogradShape, tmp_path: Path) -> None:
    layer = Case(10, 17, 8, 9, input_zero_point=-5, zero_point=3, seed=1).layer
    lowered = _scalar(core, layer, shape)
    assert lowered is not None
    check(core, layer, lowered, tmp_path)


@pytest.mark.parametrize("core", ["rv32imac", "cortex-m0"])
@pytest.mark.parametrize("name", ["no activation", "clamp"])
def test_scalar_by_table(core: str, name: str, tmp_path: Path) -> None:
    layer = CASES[name].layer
    shape = next(s for c, s in SCALAR if c == core and s.tiles == 1)
    lowered = _scalar(core, layer, replace(shape, channels=4), lookup=True)
    assert lowered is not None
    check(core, layer, lowered, tmp_path)


def test_layers_that_are_left_to_other_kernels() -> None:
    """Accumulators that do not leave room for the transform's factor, and channels that are no whole quads."""
    assert winograd_lowering_dsp.lower(Case(8, 8, 256, 4, gain=0.001).layer, 4, 1) is None
    assert winograd_lowering_dsp.alternatives(Case(8, 8, 6, 4).layer) == ()
