# SPDX-License-Identifier: Apache-2.0
"""Weights as code, and requantisation by shifts, against the reference's arithmetic."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from compiler.kernels.kernel import Lowered
from compiler.kernels.packing import Int64Array
from compiler.kernels.problems import Requantization, Window
from compiler.kernels.scalar.coded import CodedConv
from compiler.kernels.scalar.shift_add import ShiftRescale, rescale, signed_digits
from compiler.numerics import quantize_multiplier, requantize
from tests.unit.compiler.kernels.scalar_layers import (
    Layer,
    check,
    conv_layer,
    depthwise_layer,
    fully_connected_layer,
    lower,
    square,
)

CORE = "rv32ec"
PLAIN: list[Layer] = [
    conv_layer(1, square(6, 3, 4, 3), plain=True),
    conv_layer(2, square(7, 2, 3, 3, 2), plain=True),
    conv_layer(3, Window(5, 4, 4, 5, 4, 6, 1, 1, 1, 1, 0, 0), plain=True),
    conv_layer(4, Window(9, 6, 1, 3, 3, 5, 4, 2, 3, 2, 2, 0), plain=True),
    depthwise_layer(5, square(6, 4, 4, 3), plain=True),
    depthwise_layer(6, square(5, 2, 6, 3, 2), plain=True),
    fully_connected_layer(3, 1, 20, 6),
]
LAYERS = [
    *(replace(layer, bias=layer.bias % 8001 - 4000) for layer in PLAIN),
    *(conv_layer(seed, Window(5, 6, 3, 5, 4, 4, 1, 3, 1, 1, 0, 0)) for seed in range(20, 40)),
]


def _coded(layer: Layer) -> Lowered | None:
    return next((o for o in lower(CORE, layer).alternatives if isinstance(o.calls[0].kernel, CodedConv)), None)


def test_coded_layers_agree_with_the_reference(tmp_path: Path) -> None:
    pairs = [(layer, coded) for layer in LAYERS if (coded := _coded(layer)) is not None]
    assert all(_coded(layer) for layer in LAYERS[: len(PLAIN)])
    kernels = [lowered.calls[0].kernel for _, lowered in pairs]
    rescales = [r for kernel in kernels if isinstance(kernel, CodedConv) for r in kernel.rescales]
    assert any(r.nudge for r in rescales) and any(not r.digits for r in rescales)
    assert len({(r.minimum, r.maximum) for r in rescales}) > 2
    check(CORE, [layer for layer, _ in pairs], [lowered for _, lowered in pairs], tmp_path)


def test_zero_weights_have_no_code() -> None:
    layer = conv_layer(1, square(6, 3, 4, 3), plain=True)
    weights = np.zeros_like(layer.weights)
    weights[1, 2, 2, 1] = 5
    lowered = _coded(replace(layer, weights=weights, bias=np.zeros_like(layer.bias)))
    assert lowered is not None
    kernel = lowered.calls[0].kernel
    assert isinstance(kernel, CodedConv)
    assert [(group.taps, group.outputs) for group in kernel.groups] == [(((2, 7),), ((1, (5,)),))]


def test_signed_digits() -> None:
    for value in range(-128, 128):
        digits = signed_digits(value)
        assert sum(sign << exponent for exponent, sign in digits) == value
        exponents = [exponent for exponent, _ in digits]
        assert all(b - a > 1 for a, b in pairwise(exponents))


def _value(r: ShiftRescale, x: Int64Array) -> Int64Array:
    total = r.addend - np.where(x < 0, r.nudge, 0)
    for shift, sign in r.digits:
        total = total + sign * ((x << r.left) >> shift)
    assert np.abs(total).max() < 1 << 31
    return np.asarray(np.clip((total >> r.right) + r.minimum + 1, r.minimum, r.maximum), np.int64)


@pytest.mark.parametrize(("scale", "reach"), [(0.0123, 40_000), (0.3, 3_000), (0.9, 900), (0.0007, 2_000_000)])
@pytest.mark.parametrize(("zero_point", "minimum", "maximum"), [(-128, -128, 127), (3, -128, 127), (-20, -20, 90)])
def test_every_accumulator(scale: float, reach: int, zero_point: int, minimum: int, maximum: int) -> None:
    multiplier, shift = quantize_multiplier(scale)
    r = Requantization(np.array([multiplier]), np.array([shift]), zero_point, minimum, maximum)
    found = rescale(r, 0, -reach, reach - 7)
    assert found is not None
    x = np.arange(-reach, reach - 6)
    np.testing.assert_array_equal(_value(found, x), requantize(x[:, None], r)[:, 0])


def test_accumulators_without_room_are_refused() -> None:
    r = Requantization(np.array([1 << 30]), np.array([0]), 0, -128, 127)
    assert rescale(r, 0, -(1 << 30), 1 << 30) is None
