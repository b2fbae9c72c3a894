# SPDX-License-Identifier: Apache-2.0
"""The scalar kernels against the reference's arithmetic, on the four instruction sets that use them.

Layers of one kind are merged into one program a core: small random geometries and the ones that break kernels.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

from compiler.graph import DType
from compiler.kernels.compact import Compact
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable.unpack import Unpack
from compiler.kernels.problems import Conv2D, DepthwiseConv2D, FullyConnected, Window
from compiler.kernels.scalar import conv_pairs_lowering
from compiler.kernels.scalar.clamps import Clamp
from compiler.kernels.scalar.conv_pairs import ConvPairs
from compiler.kernels.scalar.conv_product import Product, conv_product, fully_connected_product
from compiler.kernels.scalar.conv_ring import ConvScalar
from compiler.kernels.scalar.depthwise import DepthwiseScalar
from compiler.kernels.scalar.requantize import Rounding
from qemu.plugin import PluginUnavailable
from qemu.profile import plugin_options, read_counts
from tests.harness import build, isa_of, layer_model
from tests.unit.compiler.kernels.scalar_layers import (
    CORES,
    Layer,
    check,
    conv_layer,
    depthwise_layer,
    fully_connected_layer,
    inputs_of,
    lower,
    merged,
    shapes_of,
    square,
)

WithWeights = TypeVar("WithWeights", Conv2D, FullyConnected)

CONVOLUTIONS = [
    conv_layer(1, square(8, 8, 8, 3), plain=True),
    conv_layer(2, square(5, 3, 6, 3), plain=True),
    conv_layer(3, square(9, 4, 5, 3, 2)),
    conv_layer(4, square(6, 8, 12, 1), plain=True),
    conv_layer(5, square(7, 6, 9, 1, 2)),
    conv_layer(6, Window(12, 6, 1, 6, 3, 7, 10, 4, 2, 2, 4, 1)),
    *(conv_layer(seed) for seed in range(10, 24)),
]
DEPTHWISE = [
    depthwise_layer(1, square(8, 4, 4, 3), plain=True),
    depthwise_layer(2, square(9, 3, 3, 3, 2), plain=True),
    depthwise_layer(3, Window(12, 5, 1, 6, 3, 4, 10, 4, 2, 2, 4, 1), plain=True),
    *(depthwise_layer(seed) for seed in range(10, 22)),
]
FULLY_CONNECTED = [
    fully_connected_layer(0, 1, 64, 16),
    fully_connected_layer(1, 1, 37, 10),
    fully_connected_layer(2, 3, 20, 5, filter_zero_point=-9),
    fully_connected_layer(3, 6, 7, 1, filter_zero_point=127),
    fully_connected_layer(4, 5, 33, 9, filter_zero_point=-128),
    fully_connected_layer(5, 1, 1, 3),
    *(fully_connected_layer(seed, seed % 4 + 1, 3 * seed, seed) for seed in range(6, 12)),
]


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("layers", [CONVOLUTIONS, DEPTHWISE, FULLY_CONNECTED], ids=["conv", "depthwise", "fc"])
def test_layers_agree_with_the_reference(core: str, layers: list[Layer], tmp_path: Path) -> None:
    check(core, layers, [lower(core, layer) for layer in layers], tmp_path)


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
    _heavy(conv_layer(seed, window, plain=seed % 2 == 0), seed % 4)
    for seed, window in enumerate(
        [
            square(12, 8, 8, 1),
            square(12, 8, 10, 1),
            square(13, 6, 8, 3),
            square(7, 2, 9, 3, 2),
            square(16, 4, 8, 3, 2),
            square(6, 18, 12, 1),
            Window(7, 9, 2, 4, 7, 8, 2, 2, 2, 1, 1, 0, 2, 2),
            Window(9, 10, 2, 9, 9, 8, 1, 5, 1, 1, 0, 2),
            Window(12, 6, 1, 6, 3, 8, 10, 4, 2, 2, 4, 1),
            Window(9, 15, 3, 4, 7, 9, 3, 3, 2, 2, 0, 1),
            Window(8, 15, 3, 6, 7, 8, 2, 3, 1, 2, 0, 0, 2, 1),
        ]
    )
]
PAIRS_OF_VECTORS = [
    _heavy(fully_connected_layer(seed, batches, depth, outputs), seed % 4)
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
        for built in (c.lowered() for c in candidates):
            kernel = built.calls[0].kernel
            assert isinstance(kernel, ConvPairs)
            block = (kernel.channels, kernel.pixels, kernel.depth)
            form = (*block, kernel.stored, kernel.copy, kernel.single, kernel.mirrored, *kernel.edges)
            # Row lengths differ in numbers only.
            if uses[form] < 2 and all(kernel != other.calls[0].kernel for other in lowered):
                uses[form] += 1
                layers.append(layer)
                lowered.append(built)
    check(core, layers, lowered, tmp_path)


@pytest.mark.parametrize("core", ["rv32imac", "cortex-m0"])
def test_tables_agree_with_the_reference(core: str, tmp_path: Path) -> None:
    """Each layer whose outputs a table can hold, in the first form that has one."""
    layers: list[Layer] = []
    tables: list[Lowered] = []
    candidates: list[Layer] = [*CONVOLUTIONS, *DEPTHWISE, *FULLY_CONNECTED]
    for layer in candidates:
        for lowered in lower(core, layer).alternatives:
            kernel = lowered.calls[0].kernel
            if isinstance(kernel, ConvScalar | ConvPairs | DepthwiseScalar) and kernel.form.clamp is Clamp.LOOKUP:
                layers.append(layer)
                tables.append(lowered)
                break
    limits = {(layer.requantization.minimum, layer.requantization.maximum) for layer in layers}
    assert len(layers) >= 12 and len(limits) > 2
    check(core, layers, tables, tmp_path)


@pytest.mark.parametrize("core", CORES)
def test_compact_kernels_agree_with_the_reference(core: str, tmp_path: Path) -> None:
    """The last of each layer's, which corrects ties where there may be none."""
    layers: list[Layer] = [*CONVOLUTIONS, *DEPTHWISE, *FULLY_CONNECTED]
    compact: list[Lowered] = [
        [other for other in lower(core, layer).alternatives if isinstance(other, Compact) and not _packed(other)][-1]
        for layer in layers
    ]
    check(core, layers, compact, tmp_path)


@pytest.mark.parametrize("core", CORES)
def test_packed_records_agree_with_the_reference(core: str, tmp_path: Path) -> None:
    """All lowerings whose channels' records are packed, and which there are; channels with one output among them."""
    layers: list[Layer] = []
    packed: list[Lowered] = []
    candidates: list[Layer] = [*CONVOLUTIONS, *DEPTHWISE, *FULLY_CONNECTED]
    for layer in candidates:
        for each in (layer, _with_constants(layer)):
            for other in lower(core, each).alternatives:
                if _packed(other):
                    layers.append(each)
                    packed.append(other)
    kernels = {type(one.calls[-1].kernel) for one in packed}
    assert kernels == {ConvScalar, DepthwiseScalar} and len(packed) >= 12
    check(core, layers, packed, tmp_path)


def _packed(lowered: Lowered) -> bool:
    first = lowered.calls[0].kernel
    return isinstance(first, Unpack) or (isinstance(first, DepthwiseScalar) and first.packed)


def _with_constants(layer: Layer) -> Layer:
    """The layer with an output, the second one, that does not depend on its input."""
    weights, axis = layer.weights.copy(), -1 if isinstance(layer, DepthwiseConv2D) else 0
    np.moveaxis(weights, axis, 0)[1:2] = layer.filter_zero_point if isinstance(layer, FullyConnected) else 0
    return replace(layer, weights=weights)


def test_squares_agree_with_the_reference(tmp_path: Path) -> None:
    """Products from a table of squares, on the core without multiplier."""
    layers: list[Layer] = [*CONVOLUTIONS, *DEPTHWISE, *FULLY_CONNECTED]
    quick = [
        next(
            o
            for o in lower("rv32ec", layer).alternatives
            if isinstance(o.calls[0].kernel, ConvScalar | DepthwiseScalar) and not isinstance(o, Compact)
        )
        for layer in layers
    ]
    check("rv32ec", layers, quick, tmp_path)


@pytest.mark.parametrize("core", CORES)
def test_instructions_do_not_depend_on_the_input(core: str, tmp_path: Path) -> None:
    layers: list[Layer] = [*CONVOLUTIONS[::3], *DEPTHWISE[::3], *FULLY_CONNECTED[::3]]
    shapes = [shapes_of(layer) for layer in layers]
    rows = list(zip(*(inputs_of(layer, shape) for layer, (shape, _) in zip(layers, shapes, strict=True)), strict=True))
    lowered = merged([lower(core, layer) for layer in layers])
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
    cores = ("rv32imac", "cortex-m0")
    kernels = [call.kernel for core in cores for layer in layers for call in lower(core, layer).calls]
    forms = {kernel.form for kernel in kernels if isinstance(kernel, ConvScalar | DepthwiseScalar)}
    assert {form.rounding for form in forms} == set(Rounding)
    assert {form.clamp for form in forms} == {Clamp.BYTE, Clamp.RANGE}


def test_layers_of_one_class_share_a_kernel() -> None:
    names = {
        call.kernel.name
        for size, channels, outputs in ((6, 8, 12), (4, 16, 24), (12, 32, 8))
        for call in lower("rv32imac", conv_layer(1, square(size, channels, outputs, 1), plain=True)).calls
    }
    assert len(names) == 1
