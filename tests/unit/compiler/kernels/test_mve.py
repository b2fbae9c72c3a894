# SPDX-License-Identifier: Apache-2.0
"""Helium kernels under QEMU against the NumPy reference: seeded random layers, the nasty ones by name, and inputs
that drive accumulators and ties to their extremes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from compiler import numerics
from compiler.graph import DType
from compiler.isa.mve import Mve
from compiler.kernels.kernel import Place, Role
from compiler.kernels.linear import Function, fit
from compiler.kernels.problems import Conv2D, DepthwiseConv2D, FullyConnected, IntegerSum, Requantization, Window
from tests.harness import run_layer

Array = NDArray[Any]
CORE = "cortex-m55"
ISA = Mve()


def requantization(rng: np.random.Generator, scales: Array, kind: str) -> Requantization:
    """Multipliers that spread accumulators of standard deviation `scales` over the output range."""
    pairs = [numerics.quantize_multiplier(float(60.0 / s * rng.uniform(0.8, 1.2))) for s in scales]
    multipliers, shifts = (np.array(v, np.int64) for v in zip(*pairs, strict=True))
    if kind == "left":
        shifts[::2] = 3
        return Requantization(multipliers, shifts, 5, -128, 127)
    if kind == "zero":
        shifts[::2] = 0
        return Requantization(multipliers, shifts, -7, -128, 127)
    if kind == "ties":
        # Multiplier one half: every odd accumulator half way between two outputs.
        return Requantization(np.full_like(multipliers, 1 << 30), np.where(shifts > -2, -2, shifts), 3, -128, 127)
    ranges = {"relu": (-128, -128, 127), "relu6": (-10, -10, 77), "none": (4, -128, 127), "n1": (9, -31, 49)}
    return Requantization(multipliers, shifts, *ranges[kind])


def weights_of(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int8]:
    weights = np.clip(np.round(rng.normal(size=shape) * 45), -128, 127)
    weights.reshape(-1)[:2] = (-128, 127)
    return weights.astype(np.int8)


def conv(rng: np.random.Generator, shape: tuple[int, ...], kernel: tuple[int, int], **how: Any) -> Conv2D:
    """`shape` is input height, width, channels and output channels."""
    height, width, channels, outputs = shape
    window = _window(height, width, channels, outputs, kernel, **{k: v for k, v in how.items() if k != "kind"})
    weights = weights_of(rng, (outputs, *kernel, channels))
    spread = np.sqrt((weights.astype(np.float64) ** 2).reshape(outputs, -1).sum(axis=1)) * 70
    bias = np.round(rng.normal(size=outputs) * spread * 0.3).astype(np.int64)
    zero_point = int(rng.integers(-128, 128))
    return Conv2D(window, weights, bias, zero_point, requantization(rng, spread, how.get("kind", "relu")))


def _window(
    height: int,
    width: int,
    channels: int,
    outputs: int,
    kernel: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    pad: tuple[int, int, int, int] = (0, 0, 0, 0),
) -> Window:
    """`pad` is top, bottom, left, right."""
    reach_y, reach_x = ((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    output_height = (height + pad[0] + pad[1] - reach_y) // stride[0] + 1
    output_width = (width + pad[2] + pad[3] - reach_x) // stride[1] + 1
    return Window(
        height, width, channels, output_height, output_width, outputs, *kernel, *stride, pad[0], pad[2], *dilation
    )


def inputs_of(rng: np.random.Generator, shape: tuple[int, ...], pattern: Array | None = None) -> list[list[Array]]:
    """Random, all least, all greatest, extremes only, and (with the weights of one channel) sign-aligned inputs."""
    rows = [
        rng.integers(-128, 128, shape).astype(np.int8),
        np.full(shape, -128, np.int8),
        np.full(shape, 127, np.int8),
        np.where(rng.random(shape) < 0.5, -128, 127).astype(np.int8),
    ]
    if pattern is not None:
        tiled = np.resize(pattern, shape)
        rows += [np.where(tiled > 0, 127, -128).astype(np.int8), np.where(tiled > 0, -128, 127).astype(np.int8)]
    return [[row] for row in rows]


def check_conv(layer: Conv2D, rng: np.random.Generator, folder: Path) -> None:
    w = layer.window
    rows = inputs_of(rng, (w.input_height, w.input_width, w.input_channels), layer.weights[0, 0])
    found = run_layer(
        CORE, ISA.conv_2d(layer), rows, [(DType.INT8, (w.output_height, w.output_width, w.output_channels))], folder
    )
    for (x,), (y,) in zip(rows, found, strict=True):
        np.testing.assert_array_equal(y, numerics.conv_2d(layer, x))


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, int], dict[str, Any]]] = {
    "pointwise": ((4, 4, 32, 8), (1, 1), {}),
    "pointwise_ragged": ((3, 5, 64, 3), (1, 1), {"kind": "none"}),
    "pointwise_odd": ((5, 3, 13, 7), (1, 1), {"kind": "n1"}),
    "pointwise_one_pixel": ((1, 1, 40, 6), (1, 1), {"kind": "zero"}),
    "pointwise_deep": ((2, 2, 272, 2), (1, 1), {"kind": "left"}),
    "first": ((9, 9, 3, 5), (3, 3), {"stride": (2, 2), "pad": (0, 1, 0, 1)}),
    "wide_kernel": ((13, 6, 1, 9), (10, 4), {"stride": (2, 2), "pad": (4, 5, 1, 1), "kind": "relu6"}),
    "same": ((6, 8, 16, 4), (3, 3), {"pad": (1, 1, 1, 1), "kind": "ties"}),
    "same_32": ((5, 7, 32, 3), (3, 3), {"pad": (1, 1, 1, 1), "kind": "none"}),
    "stride_32": ((8, 9, 32, 3), (3, 3), {"stride": (2, 2), "pad": (0, 1, 1, 1), "kind": "left"}),
    "pointwise_stride": ((8, 8, 16, 5), (1, 1), {"stride": (2, 2), "kind": "none"}),
    "stride_beyond": ((9, 9, 16, 2), (2, 2), {"stride": (3, 4), "kind": "zero"}),
    "dilated": ((11, 9, 5, 3), (3, 3), {"dilation": (2, 3), "pad": (2, 2, 3, 3), "kind": "none"}),
    "narrow": ((7, 3, 16, 2), (3, 3), {"pad": (0, 1, 0, 0), "kind": "n1"}),
    "one_output": ((3, 3, 7, 3), (3, 3), {"kind": "ties"}),
    "whole": ((5, 5, 20, 2), (5, 5), {"pad": (2, 2, 2, 2), "kind": "zero"}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_conv_2d(name: str, tmp_path: Path) -> None:
    shape, kernel, how = CONVOLUTIONS[name]
    rng = np.random.default_rng(sorted(CONVOLUTIONS).index(name))
    check_conv(conv(rng, shape, kernel, **how), rng, tmp_path)


def test_conv_2d_random(tmp_path: Path) -> None:
    rng = np.random.default_rng(41)
    kinds = ("relu", "relu6", "none", "n1", "left", "zero", "ties")
    for trial in range(10):
        kernel = (int(rng.integers(1, 4)), int(rng.integers(1, 5)))
        shape = tuple(
            int(v) for v in (*rng.integers(kernel[0] * 2, 12, 2) + 2, rng.integers(1, 36), rng.integers(1, 9))
        )
        how: dict[str, Any] = {
            "stride": tuple(int(v) for v in rng.integers(1, 4, 2)),
            "pad": tuple(int(v) for v in rng.integers(0, kernel[0], 4)),
            "kind": str(rng.choice(kinds)),
        }
        check_conv(conv(rng, shape, kernel, **how), rng, tmp_path / str(trial))


def depthwise(
    rng: np.random.Generator, shape: tuple[int, ...], kernel: tuple[int, int], multiplier: int = 1, **how: Any
) -> DepthwiseConv2D:
    """`shape` is input height, width and channels."""
    outputs = shape[2] * multiplier
    height, width, channels = shape
    window = _window(height, width, channels, outputs, kernel, **{k: v for k, v in how.items() if k != "kind"})
    weights = weights_of(rng, (*kernel, outputs))
    spread = np.sqrt((weights.astype(np.float64) ** 2).reshape(-1, outputs).sum(axis=0)) * 70 + 1
    bias = np.round(rng.normal(size=outputs) * spread * 0.3).astype(np.int64)
    zero_point = int(rng.integers(-128, 128))
    return DepthwiseConv2D(window, weights, bias, zero_point, requantization(rng, spread, how.get("kind", "relu")))


DEPTHWISE: dict[str, tuple[tuple[int, ...], tuple[int, int], dict[str, Any]]] = {
    "same": ((8, 8, 16), (3, 3), {"pad": (1, 1, 1, 1)}),
    "same_odd": ((7, 5, 11), (3, 3), {"pad": (1, 1, 1, 1), "kind": "ties"}),
    "stride": ((9, 12, 8), (3, 3), {"stride": (2, 2), "pad": (0, 1, 0, 1), "kind": "relu6"}),
    "wide": ((5, 26, 4), (3, 3), {"pad": (1, 1, 1, 1), "kind": "none"}),
    "few": ((7, 5, 3), (5, 2), {"pad": (2, 2, 0, 1), "kind": "zero"}),
    "multiplied": ((6, 5, 3), (3, 3), {"multiplier": 5, "kind": "n1"}),
    "one_channel": ((9, 8, 1), (5, 4), {"multiplier": 8, "stride": (2, 2), "pad": (2, 2, 1, 1), "kind": "none"}),
    "dilated": ((9, 9, 8), (3, 3), {"dilation": (2, 2), "pad": (2, 2, 2, 2), "kind": "left"}),
    "column": ((9, 1, 10), (3, 1), {"pad": (1, 1, 0, 0), "kind": "none"}),
    "three": ((9, 35, 5), (3, 3), {"pad": (1, 1, 1, 1), "kind": "n1"}),
    "three_stride": ((8, 61, 4), (3, 2), {"stride": (2, 2), "pad": (0, 1, 0, 1), "kind": "zero"}),
    "four": ((9, 34, 3), (4, 4), {"pad": (1, 2, 1, 2), "kind": "left"}),
    "four_by_one": ((7, 9, 9), (4, 1), {"stride": (2, 1), "kind": "ties"}),
    "two_columns": ((5, 12, 9), (2, 3), {"stride": (1, 2), "pad": (1, 0, 1, 1), "kind": "none"}),
    "one_row": ((3, 20, 5), (3, 3), {"pad": (0, 0, 1, 1), "kind": "none"}),
    "small": ((3, 3, 24), (3, 3), {"pad": (1, 1, 1, 1), "kind": "ties"}),
    "stride_beyond": ((9, 9, 9), (2, 2), {"stride": (3, 3), "kind": "zero"}),
    "whole": ((5, 6, 9), (5, 6), {"kind": "none"}),
}


@pytest.mark.parametrize("name", DEPTHWISE)
def test_depthwise_conv_2d(name: str, tmp_path: Path) -> None:
    shape, kernel, how = DEPTHWISE[name]
    rng = np.random.default_rng(100 + sorted(DEPTHWISE).index(name))
    layer = depthwise(rng, shape, kernel, **how)
    w = layer.window
    rows = inputs_of(rng, shape, layer.weights[0, 0, :: layer.multiplier])
    found = run_layer(
        CORE,
        ISA.depthwise_conv_2d(layer),
        rows,
        [(DType.INT8, (w.output_height, w.output_width, w.output_channels))],
        tmp_path,
    )
    for (x,), (y,) in zip(rows, found, strict=True):
        np.testing.assert_array_equal(y, numerics.depthwise_conv_2d(layer, x))


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
