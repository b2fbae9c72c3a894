# SPDX-License-Identifier: Apache-2.0
"""The scalar kernels against the reference's arithmetic, on the four instruction sets that use them.

Layers of one kind are merged into one program a core: small random geometries and the ones that break kernels.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from compiler import numerics
from compiler.graph import DType
from compiler.kernels.kernel import Lowered, Place, Role
from compiler.kernels.problems import Conv2D, DepthwiseConv2D, FullyConnected, Requantization, Window
from compiler.kernels.scalar import conv_pairs_lowering
from compiler.kernels.scalar.conv_pairs import ConvPairs
from compiler.kernels.scalar.conv_product import Product, conv_product, fully_connected_product
from compiler.kernels.scalar.conv_ring import ConvScalar
from compiler.kernels.scalar.depthwise import DepthwiseScalar
from compiler.kernels.scalar.requantize import Rounding
from qemu.plugin import PluginUnavailable
from qemu.profile import plugin_options, read_counts
from tests.harness import build, isa_of, layer_model, run_layer

CORES = ("rv32imac", "cortex-m0", "cortex-m3", "rv32ec")
Layer = Conv2D | DepthwiseConv2D | FullyConnected
Array = NDArray[Any]
WithWeights = TypeVar("WithWeights", Conv2D, FullyConnected)
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


def _conv(seed: int, window: Window | None = None, plain: bool = False) -> Conv2D:
    rng = np.random.default_rng(seed)
    w = window or _window(rng, int(rng.integers(1, 14)), int(rng.integers(1, 14)))
    shape = (w.output_channels, w.kernel_height, w.kernel_width, w.input_channels)
    weights = rng.integers(-128, 128, shape).astype(np.int8)
    requantization = _requantization(rng, weights.reshape(w.output_channels, -1).T, plain)
    return Conv2D(w, weights, _bias(rng, w.output_channels), int(rng.integers(-128, 128)), requantization)


def _depthwise(seed: int, window: Window | None = None, plain: bool = False) -> DepthwiseConv2D:
    rng = np.random.default_rng(seed)
    channels = int(rng.integers(1, 8))
    w = window or _window(rng, channels, channels * int(rng.integers(1, 4)))
    weights = rng.integers(-128, 128, (w.kernel_height, w.kernel_width, w.output_channels)).astype(np.int8)
    requantization = _requantization(rng, weights.reshape(-1, w.output_channels), plain)
    return DepthwiseConv2D(w, weights, _bias(rng, w.output_channels), int(rng.integers(-128, 128)), requantization)


def _fully_connected(seed: int, batches: int, depth: int, outputs: int, filter_zero_point: int = 0) -> FullyConnected:
    rng = np.random.default_rng(seed)
    weights = rng.integers(-128, 128, (outputs, depth)).astype(np.int8)
    requantization = _requantization(rng, weights.T, plain=seed % 3 == 0)
    if seed % 2 == 0:
        first = [np.full(outputs, values[0]) for values in (requantization.multipliers, requantization.shifts)]
        requantization = replace(requantization, multipliers=first[0], shifts=first[1])
    zero_point = int(rng.integers(-128, 128))
    return FullyConnected(batches, weights, _bias(rng, outputs), zero_point, filter_zero_point, requantization)


def _square(size: int, channels: int, outputs: int, kernel: int, stride: int = 1) -> Window:
    """A window with SAME padding."""
    out = -(-size // stride)
    total = max(0, (out - 1) * stride + kernel - size)
    pad = total // 2
    return Window(size, size, channels, out, out, outputs, kernel, kernel, stride, stride, pad, pad)


CONVOLUTIONS = [
    _conv(1, _square(8, 8, 8, 3), plain=True),
    _conv(2, _square(5, 3, 6, 3), plain=True),
    _conv(3, _square(9, 4, 5, 3, 2)),
    _conv(4, _square(6, 8, 12, 1), plain=True),
    _conv(5, _square(7, 6, 9, 1, 2)),
    _conv(6, Window(12, 6, 1, 6, 3, 7, 10, 4, 2, 2, 4, 1)),
    *(_conv(seed) for seed in range(10, 24)),
]
DEPTHWISE = [
    _depthwise(1, _square(8, 4, 4, 3), plain=True),
    _depthwise(2, _square(9, 3, 3, 3, 2), plain=True),
    _depthwise(3, Window(12, 5, 1, 6, 3, 4, 10, 4, 2, 2, 4, 1), plain=True),
    *(_depthwise(seed) for seed in range(10, 22)),
]
FULLY_CONNECTED = [
    _fully_connected(0, 1, 64, 16),
    _fully_connected(1, 1, 37, 10),
    _fully_connected(2, 3, 20, 5, filter_zero_point=-9),
    _fully_connected(3, 6, 7, 1, filter_zero_point=127),
    _fully_connected(4, 5, 33, 9, filter_zero_point=-128),
    _fully_connected(5, 1, 1, 3),
    *(_fully_connected(seed, seed % 4 + 1, 3 * seed, seed) for seed in range(6, 12)),
]


def _shapes(layer: Layer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(layer, FullyConnected):
        return (layer.batches, layer.weights.shape[1]), (layer.batches, layer.weights.shape[0])
    w = layer.window
    return (w.input_height, w.input_width, w.input_channels), (w.output_height, w.output_width, w.output_channels)


def _lowered(core: str, layer: Layer) -> Lowered:
    isa = isa_of(core)
    if isinstance(layer, Conv2D):
        return isa.conv_2d(layer)  # type: ignore[no-any-return]
    if isinstance(layer, DepthwiseConv2D):
        return isa.depthwise_conv_2d(layer)  # type: ignore[no-any-return]
    return isa.fully_connected(layer)  # type: ignore[no-any-return]


def _reference(layer: Layer, x: Array) -> Array:
    if isinstance(layer, Conv2D):
        return numerics.conv_2d(layer, x)
    if isinstance(layer, DepthwiseConv2D):
        return numerics.depthwise_conv_2d(layer, x)
    return numerics.fully_connected(layer, x)


def _merged(layers: list[Lowered]) -> Lowered:
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


def _inputs(layer: Layer, shape: tuple[int, ...]) -> list[Array]:
    """Random, both extremes, and signs that agree and disagree with the weights as far as the shapes allow."""
    signs = np.where(layer.weights >= 0, 127, -128).astype(np.int8)
    if isinstance(layer, DepthwiseConv2D):
        signs = signs[..., :: layer.multiplier]
    aligned = np.resize(signs.ravel(), shape)
    random = np.random.default_rng(7).integers(-128, 128, shape).astype(np.int8)
    return [random, np.full(shape, -128, np.int8), np.full(shape, 127, np.int8), aligned, ~aligned]


def _check(core: str, layers: Sequence[Layer], lowered: list[Lowered], folder: Path) -> None:
    shapes = [_shapes(layer) for layer in layers]
    rows = list(zip(*(_inputs(layer, shape) for layer, (shape, _) in zip(layers, shapes, strict=True)), strict=True))
    found = run_layer(core, _merged(lowered), rows, [(DType.INT8, shape) for _, shape in shapes], folder)
    for row, outputs in zip(rows, found, strict=True):
        for layer, x, got in zip(layers, row, outputs, strict=True):
            np.testing.assert_array_equal(got, _reference(layer, x), err_msg=repr(layer))


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("layers", [CONVOLUTIONS, DEPTHWISE, FULLY_CONNECTED], ids=["conv", "depthwise", "fc"])
def test_layers_agree_with_the_reference(core: str, layers: list[Layer], tmp_path: Path) -> None:
    _check(core, layers, [_lowered(core, layer) for layer in layers], tmp_path)


def _heavy(layer: WithWeights, kind: int) -> WithWeights:
    """The layer with weights that strain the packing of pairs: extremes, many zeros, alternating signs."""
    weights = layer.weights.copy()
    if kind == 0:
        weights[:2] = -128
    elif kind == 1:
        weights[np.random.default_rng(kind).random(weights.shape) < 0.8] = 0
        weights[-1] = 0
    elif kind == 2:
        weights[...] = np.resize([127, -127, -128, 127, 127], weights.shape)
    return replace(layer, weights=weights)


PAIRS = [
    _heavy(_conv(seed, window, plain=seed % 2 == 0), seed % 4)
    for seed, window in enumerate(
        [
            _square(12, 8, 8, 1),
            _square(12, 8, 10, 1),
            _square(13, 6, 8, 3),
            _square(7, 2, 9, 3, 2),
            _square(16, 4, 8, 3, 2),
            _square(6, 18, 12, 1),
            Window(7, 9, 2, 4, 7, 8, 2, 2, 2, 1, 1, 0, 2, 2),
            Window(9, 10, 2, 9, 9, 8, 1, 5, 1, 1, 0, 2),
            Window(12, 6, 1, 6, 3, 8, 10, 4, 2, 2, 4, 1),
            Window(9, 15, 3, 4, 7, 9, 3, 3, 2, 2, 0, 1),
            Window(8, 15, 3, 6, 7, 8, 2, 3, 1, 2, 0, 0, 2, 1),
        ]
    )
]
PAIRS_OF_VECTORS = [
    _heavy(_fully_connected(seed, batches, depth, outputs), seed % 4)
    for seed, (batches, depth, outputs) in enumerate(
        [(1, 64, 16), (1, 62, 19), (3, 40, 17), (1, 8, 33), (1, 2, 16), (2, 100, 8)]
    )
]


@pytest.mark.parametrize("core", ["rv32imac", "cortex-m0", "cortex-m3"])
def test_pairs_agree_with_the_reference(core: str, tmp_path: Path) -> None:
    """Every form of kernel that the core has, in two layers unless fewer suit it."""
    isa = isa_of(core)
    layers: list[Layer] = []
    lowered: list[Lowered] = []
    uses: Counter[tuple[object, ...]] = Counter()
    products: list[tuple[Layer, Product]] = [(layer, conv_product(layer)) for layer in PAIRS]
    products += [(layer, fully_connected_product(layer)) for layer in PAIRS_OF_VECTORS]
    for layer, product in products:
        candidates = list(conv_pairs_lowering.candidates(isa.core, isa.blocking, product))
        assert candidates or core == "cortex-m3", layer
        for built in (c.build() for c in candidates):
            kernel = built.calls[0].kernel
            assert isinstance(kernel, ConvPairs)
            block = (kernel.channels, kernel.pixels, kernel.depth)
            form = (*block, kernel.stored, kernel.copy, kernel.single, kernel.mirrored, *kernel.edges)
            # Row lengths differ in numbers only.
            if uses[form] < 2 and all(kernel != other.calls[0].kernel for other in lowered):
                uses[form] += 1
                layers.append(layer)
                lowered.append(built)
    _check(core, layers, lowered, tmp_path)


@pytest.mark.parametrize("core", CORES)
def test_instructions_do_not_depend_on_the_input(core: str, tmp_path: Path) -> None:
    layers: list[Layer] = [*CONVOLUTIONS[::3], *DEPTHWISE[::3], *FULLY_CONNECTED[::3]]
    shapes = [_shapes(layer) for layer in layers]
    rows = list(zip(*(_inputs(layer, shape) for layer, (shape, _) in zip(layers, shapes, strict=True)), strict=True))
    lowered = _merged([_lowered(core, layer) for layer in layers])
    model = layer_model(core, lowered, rows[0], [(DType.INT8, shape) for _, shape in shapes])
    image = build(model, rows, tmp_path)
    counts = tmp_path / "counts"
    try:
        plugin = plugin_options(image.elf, model.prefix, 1, counts).plugin
    except PluginUnavailable as error:
        pytest.skip(str(error))
    assert plugin is not None
    done = subprocess.run([*image.command, "-plugin", plugin], cwd=tmp_path, capture_output=True, check=False)
    if b"plugin" in done.stderr:
        pytest.skip(done.stderr.decode().splitlines()[0])
    totals = {count.total for count in read_counts(counts, 1)}
    assert len(totals) == 1


def test_the_layers_reach_every_form() -> None:
    """The random layers are only worth something if they use each form of rounding and clamp."""
    layers: list[Layer] = [*CONVOLUTIONS, *DEPTHWISE, *FULLY_CONNECTED]
    kernels = [call.kernel for layer in layers for call in _lowered("rv32imac", layer).calls]
    forms = {kernel.form for kernel in kernels if isinstance(kernel, ConvScalar | DepthwiseScalar)}
    assert {form.rounding for form in forms} == set(Rounding)
    assert {form.whole for form in forms} == {True, False}


def test_layers_of_one_class_share_a_kernel() -> None:
    names = {
        call.kernel.name
        for size, channels, outputs in ((6, 8, 12), (4, 16, 24), (12, 32, 8))
        for call in _lowered("rv32imac", _conv(1, _square(size, channels, outputs, 1), plain=True)).calls
    }
    assert len(names) == 1
