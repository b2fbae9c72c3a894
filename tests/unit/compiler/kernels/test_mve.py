# SPDX-License-Identifier: Apache-2.0
"""Helium convolutions under QEMU against the NumPy reference: the nasty ones by name, and seeded random ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler import numerics
from compiler.graph import DType
from compiler.kernels.problems import Conv2D
from tests.harness import run_layer
from tests.unit.compiler.kernels.mve_layers import CORE, ISA, conv, inputs_of


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
