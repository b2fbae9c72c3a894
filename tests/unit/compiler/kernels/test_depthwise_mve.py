# SPDX-License-Identifier: Apache-2.0
"""Helium depthwise convolutions under QEMU against the NumPy reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler import numerics
from compiler.graph import DType
from tests.harness import run_layer
from tests.unit.compiler.kernels.mve_layers import CORE, ISA, depthwise, inputs_of

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
