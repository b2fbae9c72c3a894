# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions with two outputs a multiplication against the reference's arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compiler.kernels.kernel import Lowered
from compiler.kernels.problems import DepthwiseConv2D, Window
from compiler.kernels.scalar.depthwise_halves import LIMIT, DepthwiseHalves
from tests.unit.compiler.kernels.scalar_layers import Layer, check, depthwise_layer, lower, square

CORES = ("rv32imac", "cortex-m0", "cortex-m3")
WINDOWS = [
    square(6, 4, 4, 3),
    square(7, 3, 3, 3),
    square(8, 5, 5, 3, 2),
    square(2, 3, 3, 3),
    Window(9, 10, 3, 7, 8, 3, 3, 3, 1, 1, 0, 0),
    Window(5, 5, 2, 9, 6, 2, 3, 2, 1, 1, 3, 1),
    Window(12, 1, 4, 12, 1, 4, 5, 1, 1, 1, 2, 0),
    Window(6, 11, 3, 3, 10, 3, 2, 2, 2, 1, 0, 0),
    Window(3, 9, 2, 3, 3, 2, 1, 9, 1, 3, 0, 4),
]


def _strained(layer: DepthwiseConv2D, seed: int) -> DepthwiseConv2D:
    """Weights whose groups of two taps just keep the limit, in the first channel; of three in the second; the rest is
    small."""
    w = layer.window
    rng = np.random.default_rng(seed)
    weights = rng.integers(-40, 41, (w.kernel_height * w.kernel_width, w.output_channels))
    weights[:, 0] = np.resize([-128, 127, 127, -128], len(weights))
    weights[:, 1] = np.resize([85, -85, 85], len(weights))
    return replace(layer, weights=weights.astype(np.int8).reshape(layer.weights.shape))


def _halves(core: str, layer: Layer) -> Iterator[Lowered]:
    """The layer's forms with two outputs a multiplication."""
    for lowered in lower(core, layer).alternatives:
        if isinstance(lowered.calls[0].kernel, DepthwiseHalves):
            yield lowered


@pytest.mark.parametrize("core", CORES)
def test_halves_agree_with_the_reference(core: str, tmp_path: Path) -> None:
    layers: list[Layer] = []
    found: list[Lowered] = []
    for seed, window in enumerate(WINDOWS):
        layer = _strained(depthwise_layer(seed, window, plain=seed % 3 == 0), seed)
        forms = list(_halves(core, layer))
        assert forms, layer
        layers += [layer] * len(forms)
        found += forms
    kernels = [call.kernel for lowered in found for call in lowered.calls]
    assert {kernel.group for kernel in kernels if isinstance(kernel, DepthwiseHalves)} == {2, 3}
    check(core, layers, found, tmp_path)


def test_each_channel_is_computed_once() -> None:
    layer = _strained(depthwise_layer(1, square(6, 8, 8, 3), plain=True), 1)
    for lowered in _halves("rv32imac", layer):
        assert sum(call.arguments[call.kernel.parameters.index("records_bytes")] for call in lowered.calls) == 8 * 60  # type: ignore[misc]


@pytest.mark.parametrize(
    "layer",
    [
        depthwise_layer(1, Window(4, 4, 3, 4, 4, 6, 3, 3, 1, 1, 1, 1)),
        depthwise_layer(1, Window(1, 9, 3, 1, 9, 3, 1, 3, 1, 1, 0, 1)),
        depthwise_layer(1, Window(8, 8, 3, 4, 4, 3, 3, 3, 1, 1, 0, 0, 2, 2)),
        depthwise_layer(1, square(8, 3, 3, 5)),
    ],
    ids=["two outputs a channel", "one row", "dilated", "many taps"],
)
def test_other_layers_keep_one_output_a_multiplication(layer: DepthwiseConv2D) -> None:
    assert not list(_halves("rv32imac", layer))


def test_weights_beyond_the_limit_are_refused() -> None:
    layer = depthwise_layer(1, square(6, 2, 2, 3), plain=True)
    weights = np.ones_like(layer.weights)
    weights[0, :2, 1] = -128
    assert abs(weights[0, :2, 1].astype(int)).sum() > LIMIT
    assert not list(_halves("rv32imac", replace(layer, weights=weights)))
    assert list(_halves("rv32imac", replace(layer, weights=np.maximum(weights, -127))))
