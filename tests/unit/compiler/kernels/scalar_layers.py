# SPDX-License-Identifier: Apache-2.0
"""Seeded layers for the scalar kernels, inputs that drive sums to their extremes, and all in one program a core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler import numerics
from compiler.graph import DType
from compiler.kernels.kernel import Lowered, Place, Role
from compiler.kernels.problems import Conv2D, DepthwiseConv2D, FullyConnected, Requantization, Window
from tests.harness import isa_of, run_layer

CORES = ("rv32imac", "cortex-m0", "cortex-m3", "rv32ec")
Layer = Conv2D | DepthwiseConv2D | FullyConnected
Array = NDArray[Any]
GAINS = (1.0, 1.0, 0.01, 1e-7, 300.0, 3e4, 3e7)
"""Outputs that fill the range, hardly move, are constant, saturate, and need left shifts (one of which overflows)."""


def _requantization(rng: np.random.Generator, weights: Array, plain: bool) -> Requantization:
    """For weights [taps, channels]: any zero point, clamp and scale, or those of a layer with ReLU."""
    spread = np.sqrt((weights.astype(float) ** 2).sum(axis=0)) * 74 + 1
    gain = 1.0 if plain else float(rng.choice(GAINS))
    scales = 60 * gain * rng.uniform(0.5, 2, weights.shape[1]) / spread
    if not plain:
        scales[rng.integers(weights.shape[1])] *= float(rng.choice([1, 0, 1e-8, 1e3]))
    pairs = np.array([numerics.quantize_multiplier(float(s)) for s in scales], np.int64)
    zero_point = -128 if plain else int(rng.integers(-128, 128))
    clamp = (-128, 127) if plain or rng.random() < 0.4 else tuple(sorted(rng.integers(-128, 128, 2).tolist()))
    if not plain and rng.random() < 0.3:
        clamp = (zero_point, 127)
    return Requantization(pairs[:, 0], pairs[:, 1], zero_point, *clamp)


def _bias(rng: np.random.Generator, channels: int) -> NDArray[np.int64]:
    reach = int(rng.choice([0, 5_000, 5_000, 2**30]))
    return rng.integers(-reach, reach + 1, channels)


def _window(rng: np.random.Generator, channels: int, outputs: int) -> Window:
    kernel, stride = rng.integers(1, 5, 2), rng.integers(1, 4, 2)
    dilation = np.where(rng.random(2) < 0.3, 2, 1)
    before, after = rng.integers(0, 3, 2), rng.integers(0, 3, 2)
    reach = (kernel - 1) * dilation + 1
    size = np.maximum(rng.integers(1, 10, 2), reach - before - after)
    out = (size + before + after - reach) // stride + 1
    return Window(*(int(v) for v in (*size, channels, *out, outputs, *kernel, *stride, *before, *dilation)))


def conv_layer(seed: int, window: Window | None = None, plain: bool = False) -> Conv2D:
    rng = np.random.default_rng(seed)
    w = window or _window(rng, int(rng.integers(1, 14)), int(rng.integers(1, 14)))
    shape = (w.output_channels, w.kernel_height, w.kernel_width, w.input_channels)
    weights = rng.integers(-128, 128, shape).astype(np.int8)
    requantization = _requantization(rng, weights.reshape(w.output_channels, -1).T, plain)
    return Conv2D(w, weights, _bias(rng, w.output_channels), int(rng.integers(-128, 128)), requantization)


def depthwise_layer(seed: int, window: Window | None = None, plain: bool = False) -> DepthwiseConv2D:
    rng = np.random.default_rng(seed)
    channels = int(rng.integers(1, 8))
    w = window or _window(rng, channels, channels * int(rng.integers(1, 4)))
    weights = rng.integers(-128, 128, (w.kernel_height, w.kernel_width, w.output_channels)).astype(np.int8)
    requantization = _requantization(rng, weights.reshape(-1, w.output_channels), plain)
    return DepthwiseConv2D(w, weights, _bias(rng, w.output_channels), int(rng.integers(-128, 128)), requantization)


def fully_connected_layer(
    seed: int, batches: int, depth: int, outputs: int, filter_zero_point: int = 0
) -> FullyConnected:
    rng = np.random.default_rng(seed)
    weights = rng.integers(-128, 128, (outputs, depth)).astype(np.int8)
    requantization = _requantization(rng, weights.T, plain=seed % 3 == 0)
    if seed % 2 == 0:
        first = [np.full(outputs, values[0]) for values in (requantization.multipliers, requantization.shifts)]
        requantization = replace(requantization, multipliers=first[0], shifts=first[1])
    zero_point = int(rng.integers(-128, 128))
    return FullyConnected(batches, weights, _bias(rng, outputs), zero_point, filter_zero_point, requantization)


def square(size: int, channels: int, outputs: int, kernel: int, stride: int = 1) -> Window:
    """A window with SAME padding."""
    out = -(-size // stride)
    total = max(0, (out - 1) * stride + kernel - size)
    pad = total // 2
    return Window(size, size, channels, out, out, outputs, kernel, kernel, stride, stride, pad, pad)


def shapes_of(layer: Layer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(layer, FullyConnected):
        return (layer.batches, layer.weights.shape[1]), (layer.batches, layer.weights.shape[0])
    w = layer.window
    return (w.input_height, w.input_width, w.input_channels), (w.output_height, w.output_width, w.output_channels)


def lower(core: str, layer: Layer) -> Lowered:
    isa = isa_of(core)
    if isinstance(layer, Conv2D):
        return isa.conv_2d(layer)  # type: ignore[no-any-return]
    if isinstance(layer, DepthwiseConv2D):
        return isa.depthwise_conv_2d(layer)  # type: ignore[no-any-return]
    return isa.fully_connected(layer)  # type: ignore[no-any-return]


def reference(layer: Layer, x: Array) -> Array:
    if isinstance(layer, Conv2D):
        return numerics.conv_2d(layer, x)
    if isinstance(layer, DepthwiseConv2D):
        return numerics.depthwise_conv_2d(layer, x)
    return numerics.fully_connected(layer, x)


def merged(layers: list[Lowered]) -> Lowered:
    """One lowering whose operands are the layers' own, in order; scratch memory is shared."""

    def moved(argument: Any, number: int) -> Any:
        if isinstance(argument, Place) and argument.role is not Role.SCRATCH:
            return replace(argument, index=number)
        return argument

    calls = [
        replace(call, arguments=tuple(moved(a, number) for a in call.arguments))
        for number, layer in enumerate(layers)
        for call in layer.calls
    ]
    return Lowered(tuple(calls), max(layer.scratch_bytes for layer in layers))


def inputs_of(layer: Layer, shape: tuple[int, ...]) -> list[Array]:
    """Random, both extremes, and signs that agree and disagree with the weights as far as the shapes allow."""
    signs = np.where(layer.weights >= 0, 127, -128).astype(np.int8)
    if isinstance(layer, DepthwiseConv2D):
        signs = signs[..., :: layer.multiplier]
    aligned = np.resize(signs.ravel(), shape)
    random = np.random.default_rng(7).integers(-128, 128, shape).astype(np.int8)
    return [random, np.full(shape, -128, np.int8), np.full(shape, 127, np.int8), aligned, ~aligned]


def check(core: str, layers: Sequence[Layer], lowered: list[Lowered], folder: Path) -> None:
    shapes = [shapes_of(layer) for layer in layers]
    rows = list(zip(*(inputs_of(layer, shape) for layer, (shape, _) in zip(layers, shapes, strict=True)), strict=True))
    found = run_layer(core, merged(lowered), rows, [(DType.INT8, shape) for _, shape in shapes], folder)
    for row, outputs in zip(rows, found, strict=True):
        for layer, x, got in zip(layers, row, outputs, strict=True):
            np.testing.assert_array_equal(got, reference(layer, x), err_msg=repr(layer))
