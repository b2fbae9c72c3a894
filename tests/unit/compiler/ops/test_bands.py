# SPDX-License-Identifier: Apache-2.0
"""Bands: which rows are read for which, and the operator on them against the whole one."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.graph import DType
from compiler.ops import operators
from compiler.ops.bands import on_band
from compiler.ops.conv_2d import Conv2DAttributes
from compiler.ops.definition import Band, OperatorView
from compiler.ops.geometry import ExplicitPadding, Padding, Slide
from tests.unit.compiler.ops.build import evaluate, tensor, view

HEIGHT = 11


def convolution(stride: int, padding: Padding, dilation: int = 1, hybrid: bool = False) -> OperatorView:
    """4 channels over [11, 4] by windows of 3 x 3."""
    slide = Slide(3, 3, stride, stride, padding, dilation, dilation)
    dtype, scale = (DType.FLOAT32, None) if hybrid else (DType.INT8, 0.1)
    weights = np.random.default_rng(3).integers(-127, 128, (4, 3, 3, 4))
    x = tensor(0, (1, HEIGHT, 4, 4), dtype, scale)
    y = tensor(2, (1, *slide.output_shape(HEIGHT, 4), 4), dtype, scale)
    attributes = Conv2DAttributes(padding, stride, stride, dilation, dilation)
    return view("CONV_2D", [x, tensor(1, weights.shape, scale=0.01, data=weights)], y, attributes)


def band(v: OperatorView, rows: range) -> Band | None:
    bands = operators()[v.operator.op].bands
    assert bands is not None
    return bands(v, rows)


def test_rows_that_a_window_reads() -> None:
    v = convolution(1, Padding.SAME)
    found = [band(v, rows) for rows in (range(0, 2), range(4, 5), range(9, 11))]
    assert [b.reads[0] for b in found if b] == [range(0, 3), range(3, 6), range(8, 11)]
    paddings = [ExplicitPadding(1, 0, 1, 1), ExplicitPadding(0, 0, 1, 1), ExplicitPadding(0, 1, 1, 1)]
    assert [b.attributes.padding for b in found if b] == paddings


def test_stride_and_dilation() -> None:
    second = band(convolution(2, Padding.SAME), range(2, 4))
    assert second is not None and second.reads[0] == range(3, 8)
    spread = band(convolution(1, Padding.SAME, dilation=2), range(0, 1))
    assert spread is not None and spread.reads[0] == range(0, 3)


@pytest.mark.parametrize("padding", Padding)
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_bands_are_the_rows_of_the_whole(stride: int, padding: Padding) -> None:
    v = convolution(stride, padding)
    x = np.random.default_rng(1).integers(-128, 128, v.input().shape)
    whole, height = evaluate(v, x), v.output().shape[1]
    for start in range(height):
        for stop in range(start + 1, height + 1):
            part = band(v, range(start, stop))
            assert part is not None
            rows = part.reads[0]
            found = evaluate(on_band(v, part, range(start, stop)), x[:, rows.start : rows.stop])
            assert np.array_equal(found, whole[:, start:stop])


def test_a_hybrid_layer_has_no_bands() -> None:
    assert band(convolution(1, Padding.SAME, hybrid=True), range(0, 2)) is None


def test_sums_take_the_rows_of_both_inputs_and_of_no_constant() -> None:
    shape = (1, 6, 2, 4)
    x, y, total = tensor(0, shape), tensor(1, shape), tensor(2, shape)
    channels = tensor(1, (4,), data=[1, 2, 3, 4])
    rows = tensor(1, (1, 6, 1, 1), data=range(6))
    both, one, none = (band(view("MUL", [x, other], total), range(2, 4)) for other in (y, channels, rows))
    assert both is not None and both.reads == {0: range(2, 4), 1: range(2, 4)}
    assert one is not None and one.reads == {0: range(2, 4)}
    assert none is None
