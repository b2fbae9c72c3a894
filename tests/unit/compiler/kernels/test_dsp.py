# SPDX-License-Identifier: Apache-2.0
"""Kernels of the DSP extension against the reference's arithmetic, run under QEMU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from compiler import numerics
from compiler.graph import DType
from compiler.kernels.compact import Compact
from compiler.kernels.dsp.patch_matrix import PatchMatrix
from compiler.kernels.dsp.patch_weights import WeightForm
from compiler.kernels.dsp.requantize import plan
from compiler.kernels.kernel import Lowered
from compiler.kernels.problems import Conv2D, DepthwiseConv2D, FullyConnected, Requantization, Window
from tests.harness import isa_of, run_layer

CORE = "cortex-m4"
Layer = Conv2D | DepthwiseConv2D | FullyConnected


@dataclass(frozen=True)
class Case:
    """Geometry and quantisation of a layer; weights and inputs come from the seed."""

    height: int
    width: int
    channels: int
    outputs: int
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)  # top, bottom, left, right
    dilation: tuple[int, int] = (1, 1)
    input_zero_point: int = -128
    zero_point: int = -128
    clamp: tuple[int, int] = (-128, 127)
    gain: float = 1.0
    seed: int = 0

    @property
    def window(self) -> Window:
        def size(n: int, axis: int, padding: int) -> int:
            return (n + padding - (self.kernel[axis] - 1) * self.dilation[axis] - 1) // self.stride[axis] + 1

        top, bottom, left, right = self.pad
        rows, columns = size(self.height, 0, top + bottom), size(self.width, 1, left + right)
        sizes = (self.height, self.width, self.channels, rows, columns, self.outputs)
        return Window(*sizes, *self.kernel, *self.stride, top, left, *self.dilation)

    def requantization(self, spread: NDArray[Any]) -> Requantization:
        """Multipliers that map accumulators of standard deviation `spread` to about 60 / gain steps."""
        rng = np.random.default_rng(self.seed + 1)
        scales = 60 * self.gain * rng.uniform(0.5, 2, self.outputs) / (spread + 1)
        pairs = np.array([numerics.quantize_multiplier(float(s)) for s in scales], np.int64)
        return Requantization(pairs[:, 0], pairs[:, 1], self.zero_point, *self.clamp)


def _weights(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int8]:
    return rng.integers(-128, 128, shape).astype(np.int8)


def _conv(case: Case) -> Conv2D:
    rng, w = np.random.default_rng(case.seed), case.window
    weights = _weights(rng, (w.output_channels, w.kernel_height, w.kernel_width, w.input_channels))
    spread = np.sqrt((weights.astype(float) ** 2).sum((1, 2, 3))) * 74
    bias = np.round(rng.normal(size=case.outputs) * spread * 0.3).astype(np.int64)
    return Conv2D(w, weights, bias, case.input_zero_point, case.requantization(spread))


def _depthwise(case: Case) -> DepthwiseConv2D:
    rng, w = np.random.default_rng(case.seed), case.window
    weights = _weights(rng, (w.kernel_height, w.kernel_width, w.output_channels))
    spread = np.sqrt((weights.astype(float) ** 2).sum((0, 1))) * 74
    bias = np.round(rng.normal(size=case.outputs) * spread * 0.3).astype(np.int64)
    return DepthwiseConv2D(w, weights, bias, case.input_zero_point, case.requantization(spread))


def _fully_connected(case: Case, filter_zero_point: int) -> FullyConnected:
    rng = np.random.default_rng(case.seed)
    weights = _weights(rng, (case.outputs, case.channels))
    spread = np.sqrt((weights.astype(float) ** 2).sum(1)) * 74
    bias = np.round(rng.normal(size=case.outputs) * spread * 0.3).astype(np.int64)
    requantization = case.requantization(spread)
    return FullyConnected(case.height, weights, bias, case.input_zero_point, filter_zero_point, requantization)


def _lowered(layer: Layer, core: str) -> tuple[Lowered, Callable[[NDArray[np.int8]], NDArray[np.int64]]]:
    """The layer as kernel calls, and its reference as a function of the input."""
    isa = isa_of(core)
    if isinstance(layer, Conv2D):
        return isa.conv_2d(layer), partial(numerics.conv_2d, layer)
    if isinstance(layer, DepthwiseConv2D):
        return isa.depthwise_conv_2d(layer), partial(numerics.depthwise_conv_2d, layer)
    return isa.fully_connected(layer), partial(numerics.fully_connected, layer)


def _compact(layer: Layer) -> list[Lowered]:
    """The lowerings for SIZE."""
    return [other for other in _lowered(layer, CORE)[0].alternatives if isinstance(other, Compact)]


def _check(layer: Layer, taps: NDArray[np.int8], folder: Path, core: str = CORE, chosen: Lowered | None = None) -> None:
    """Random input, both extremes, and inputs that agree and disagree in sign with the weights of a channel."""
    lowered, reference = _lowered(layer, core)
    lowered = chosen or lowered
    if isinstance(layer, FullyConnected):
        shape: tuple[int, ...] = (layer.batches, layer.weights.shape[1])
    else:
        shape = (layer.window.input_height, layer.window.input_width, layer.window.input_channels)
    random = np.random.default_rng(7).integers(-128, 128, shape).astype(np.int8)
    aligned = np.resize(np.where(taps >= 0, 127, -128).astype(np.int8), shape)
    inputs = [random, np.full(shape, -128, np.int8), np.full(shape, 127, np.int8), aligned, ~aligned]
    expected = [reference(x) for x in inputs]
    found = run_layer(core, lowered, [[x] for x in inputs], [(DType.INT8, expected[0].shape)], folder)
    for x, want, (got,) in zip(("random", "min", "max", "aligned", "opposed"), expected, found, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=x)


SAME = (1, 1, 1, 1)
CONVOLUTIONS = {
    "3x3 same": Case(6, 7, 8, 6, pad=SAME),
    "3x3 stride 2, odd channels out": Case(9, 8, 4, 5, stride=(2, 2), pad=(0, 1, 0, 1), input_zero_point=3),
    "three channels in": Case(7, 9, 3, 8, pad=SAME, input_zero_point=-1),
    "one channel in": Case(12, 6, 1, 7, (10, 4), (2, 2), (4, 5, 1, 1), input_zero_point=83),
    "five channels, no padding": Case(5, 6, 5, 4, input_zero_point=127),
    "one channel out": Case(5, 5, 4, 1, pad=SAME),
    "dilation": Case(9, 10, 3, 4, pad=(2, 2, 3, 3), dilation=(2, 3), input_zero_point=9),
    "dilation without padding": Case(8, 8, 6, 3, (2, 3), dilation=(1, 2)),
    "unlike strides": Case(9, 11, 4, 2, (2, 3), (3, 1), (0, 1, 1, 1)),
    "more padding than kernel": Case(4, 3, 4, 2, (2, 2), pad=(3, 3, 3, 2), input_zero_point=-5),
    "pointwise": Case(5, 5, 16, 8, (1, 1)),
    "pointwise, odd": Case(2, 2, 7, 9, (1, 1), input_zero_point=0),
    "pointwise, two pixels": Case(1, 2, 33, 6, (1, 1)),
    "1x1 strided": Case(6, 6, 8, 6, (1, 1), (2, 2)),
    "rows of whole groups": Case(4, 6, 16, 4, pad=SAME, input_zero_point=-3),
    "five rows, three channels": Case(8, 8, 3, 4, (5, 3), pad=(2, 2, 1, 1)),
    "deep": Case(3, 3, 320, 4, pad=SAME),
    "one pixel out": Case(4, 4, 6, 7, (4, 4)),
    "not ReLU": Case(6, 5, 8, 4, pad=SAME, zero_point=11),
    "ReLU off the minimum": Case(6, 5, 8, 4, pad=SAME, zero_point=-20, clamp=(-20, 127)),
    "ReLU6": Case(6, 5, 8, 4, zero_point=-128, clamp=(-128, 60)),
    "narrow on both sides": Case(6, 5, 8, 4, zero_point=5, clamp=(-30, 41)),
    "large scale": Case(5, 5, 4, 4, pad=SAME, zero_point=1, gain=1e3),
    "left shifts": Case(5, 5, 4, 4, (1, 1), zero_point=1, gain=3e4),
    "overflowing left shifts": Case(5, 5, 4, 4, (1, 1), zero_point=1, clamp=(-100, 99), gain=3e7),
    "small scale": Case(5, 5, 8, 4, pad=SAME, zero_point=-2, gain=1e-2),
    "all outputs constant": Case(5, 5, 8, 4, pad=SAME, zero_point=-2, gain=1e-7),
}
DEPTHWISE = {
    "3x3 same": Case(6, 7, 8, 8, pad=SAME),
    "3x3 same, even rows, odd channels": Case(5, 6, 5, 5, pad=SAME, input_zero_point=-7),
    "3x3 stride 2": Case(8, 8, 6, 6, stride=(2, 2), pad=(0, 1, 0, 1)),
    "3x3 stride 2, odd": Case(7, 9, 3, 3, stride=(2, 2), pad=SAME, input_zero_point=90),
    "in bands": Case(40, 160, 2, 2, pad=SAME, input_zero_point=5),
    "in bands, stride 2": Case(43, 210, 3, 3, stride=(2, 2), pad=SAME, zero_point=-9),
    "3x3 valid": Case(5, 6, 4, 4),
    "3x3 on 3x3": Case(3, 3, 4, 4, pad=SAME),
    "one column": Case(5, 1, 4, 4, pad=SAME),
    "one row": Case(1, 5, 2, 2, pad=SAME),
    "stride 2 x 1": Case(7, 6, 4, 4, stride=(2, 1), pad=SAME),
    "multiplier 2": Case(5, 5, 3, 6, pad=SAME),
    "multiplier 8 of one channel": Case(6, 5, 1, 8, pad=SAME),
    "5x5": Case(7, 7, 4, 4, (5, 5), pad=(2, 2, 2, 2)),
    "5x5, odd channels": Case(6, 7, 7, 7, (5, 5), pad=(2, 2, 2, 2), zero_point=6),
    "7x1": Case(9, 3, 4, 4, (7, 1)),
    "dilation": Case(8, 8, 2, 2, pad=(2, 2, 2, 2), dilation=(2, 2)),
    "not ReLU": Case(6, 6, 4, 4, pad=SAME, zero_point=20),
    "ReLU6": Case(6, 6, 4, 4, pad=SAME, zero_point=-128, clamp=(-128, 30)),
    "left shifts": Case(6, 6, 4, 4, pad=SAME, zero_point=0, gain=3e4),
    "overflowing left shifts": Case(6, 6, 4, 4, pad=SAME, zero_point=0, clamp=(-5, 90), gain=3e7),
}
FULLY_CONNECTED = {
    "one row": (Case(1, 1, 40, 12), 0),
    "odd": (Case(1, 1, 13, 7, zero_point=4), 0),
    "three outputs": (Case(1, 1, 130, 3), 0),
    "one output": (Case(1, 1, 5, 1), 0),
    "batch": (Case(5, 1, 24, 6), 0),
    "filter zero point": (Case(1, 1, 24, 6, zero_point=7), -128),
    "one block, read in place": (Case(2, 1, 48, 4), 0),
    "deep, read in place": (Case(1, 1, 1100, 6, zero_point=-3), 0),
    "filter zero point, batch": (Case(4, 1, 10, 5, clamp=(-100, 20), zero_point=-50), 77),
    "left shifts": (Case(1, 1, 8, 8, gain=1e6, zero_point=0), 0),
}


@pytest.mark.parametrize("case", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_convolution(case: Case, tmp_path: Path) -> None:
    layer = _conv(case)
    _check(layer, layer.weights[0].reshape(-1), tmp_path)


@pytest.mark.parametrize("case", DEPTHWISE.values(), ids=DEPTHWISE)
def test_depthwise(case: Case, tmp_path: Path) -> None:
    layer = _depthwise(case)
    _check(layer, layer.weights.reshape(-1), tmp_path)


@pytest.mark.parametrize(("case", "filter_zero_point"), FULLY_CONNECTED.values(), ids=FULLY_CONNECTED)
def test_fully_connected(case: Case, filter_zero_point: int, tmp_path: Path) -> None:
    layer = _fully_connected(case, filter_zero_point)
    _check(layer, layer.weights[0], tmp_path)


@pytest.mark.parametrize("case", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_compact_convolution(case: Case, tmp_path: Path) -> None:
    layer = _conv(case)
    others = _compact(layer)
    assert others
    for lowered in others:
        _check(layer, layer.weights[0].reshape(-1), tmp_path, chosen=lowered)


@pytest.mark.parametrize("case", DEPTHWISE.values(), ids=DEPTHWISE)
def test_compact_depthwise(case: Case, tmp_path: Path) -> None:
    layer = _depthwise(case)
    for lowered in _compact(layer):
        _check(layer, layer.weights.reshape(-1), tmp_path, chosen=lowered)


@pytest.mark.parametrize(("case", "filter_zero_point"), FULLY_CONNECTED.values(), ids=FULLY_CONNECTED)
def test_compact_fully_connected(case: Case, filter_zero_point: int, tmp_path: Path) -> None:
    layer = _fully_connected(case, filter_zero_point)
    others = _compact(layer)
    assert others
    for lowered in others:
        _check(layer, layer.weights[0], tmp_path, chosen=lowered)


@pytest.mark.parametrize("core", ["cortex-m7", "cortex-m33"])
def test_other_cores(core: str, tmp_path: Path) -> None:
    layer = _conv(CONVOLUTIONS["3x3 same"])
    _check(layer, layer.weights[0].reshape(-1), tmp_path, core)


@pytest.mark.parametrize("extreme", [False, True], ids=["random", "extreme"])
@pytest.mark.parametrize(
    "case",
    [
        Case(3, 3, 64, 66, (1, 1)),
        Case(3, 4, 16, 31, pad=SAME, input_zero_point=4, zero_point=-6),
        Case(5, 4, 16, 32, stride=(2, 2), pad=(0, 1, 0, 1), dilation=(1, 1), clamp=(-128, 100)),
        Case(7, 7, 12, 40, pad=(2, 2, 2, 2), dilation=(2, 2)),
        Case(1, 1, 260, 18, (1, 1), zero_point=3),
    ],
    ids=["pointwise", "3x3, odd channels", "stride 2", "dilation", "one pixel"],
)
def test_joined_weights(case: Case, extreme: bool, tmp_path: Path) -> None:
    """Layers large enough for pairs of weights in an int16; the extreme ones have nothing but -127 and 127."""
    layer = _conv(case)
    weights = np.maximum(layer.weights, -127)
    if extreme:
        weights = np.where(weights >= 0, 127, -127).astype(np.int8)
    layer = replace(layer, weights=weights)
    kernel = isa_of(CORE).conv_2d(layer).calls[0].kernel
    assert isinstance(kernel, PatchMatrix)
    assert kernel.weights is WeightForm.JOINED
    for lowered in (None, *_compact(layer)):
        _check(layer, weights[0].reshape(-1), tmp_path, chosen=lowered)


def test_weights_that_do_not_join(tmp_path: Path) -> None:
    """-128 beside a positive weight does not fit the pair: bytes remain."""
    layer = _conv(Case(3, 3, 64, 66, (1, 1)))
    weights = layer.weights.copy()
    weights[5, 0, 0, :4] = (-128, 1, 3, -128)
    layer = replace(layer, weights=weights)
    kernel = isa_of(CORE).conv_2d(layer).calls[0].kernel
    assert isinstance(kernel, PatchMatrix)
    assert kernel.weights is WeightForm.BYTES
    _check(layer, weights[5].reshape(-1), tmp_path)


def test_unlike_shifts_and_a_dead_channel(tmp_path: Path) -> None:
    layer = _conv(Case(4, 4, 4, 6, zero_point=-128))
    weights, shifts = layer.weights.copy(), np.array([-31, -5, -16, -9, -2, 0], np.int64)
    weights[0] = 0
    multipliers = layer.requantization.multipliers
    layer = replace(layer, weights=weights, requantization=Requantization(multipliers, shifts, -128, -128, 127))
    _check(layer, weights[1].reshape(-1), tmp_path)


def test_ties_of_negative_accumulators(tmp_path: Path) -> None:
    """A scale of 1/4 makes every other accumulator a tie, which rounds away from zero."""
    window = Window(3, 8, 1, 3, 8, 2, 1, 1, 1, 1, 0, 0)
    requantization = Requantization(np.full(2, 1 << 30, np.int64), np.full(2, -1, np.int64), 3, -128, 127)
    layer = Conv2D(window, np.array([[[[1]]], [[[-3]]]], np.int8), np.array([1, -1], np.int64), 0, requantization)
    _check(layer, np.array([1, -1, 1], np.int8), tmp_path)


def test_forms_are_chosen_by_proof() -> None:
    def form(multiplier_shift: int, bound: int, zero_point: int, minimum: int, maximum: int) -> Any:
        shifts = np.array([multiplier_shift], np.int64)
        r = Requantization(np.array([1 << 30], np.int64), shifts, zero_point, minimum, maximum)
        return plan(r, np.zeros(1, np.int64), np.array([-bound]), np.array([bound]), 14).form

    relu, plain = form(-8, 1 << 17, -128, -128, 127), form(-8, 1 << 17, 0, -128, 127)
    assert (relu.tie, relu.clamp, relu.exact) == (False, False, False)
    assert (plain.tie, plain.clamp, plain.exact) == (True, False, False)
    assert form(-8, 1 << 17, -128, -128, 50).clamp
    assert not form(-8, 1 << 12, -128, -128, 50).clamp, "no accumulator reaches the maximum"
    assert form(12, 1 << 20, 0, -128, 127).exact, "the shifted accumulator overflows"
