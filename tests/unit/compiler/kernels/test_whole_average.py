# SPDX-License-Identifier: Apache-2.0
"""The small average over a whole image against the reference's arithmetic; which pools it is for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compiler.graph import DType
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable.whole_average import whole_average
from compiler.kernels.problems import Window
from compiler.ops.pooling import average_reference
from tests.harness import isa_of, layer_model, run

WINDOW = Window(5, 3, 6, 1, 1, 6, 5, 3, 1, 1, 0, 0)
CORES = ("cortex-m0", "cortex-m4f", "cortex-m55", "rv32imac", "rv32ec")


def _lowered(core: str, w: Window, ties_up: bool) -> Lowered:
    lowered = whole_average(isa_of(core), w, ties_up)
    assert lowered is not None
    return lowered


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("ties_up", [False, True])
def test_averages_agree_with_the_reference(core: str, ties_up: bool, tmp_path: Path) -> None:
    """Random images, both extremes, and sums half-way between two outputs: of 6 pixels each second sum of 3 mod 6."""
    w = replace(WINDOW, input_height=2, kernel_height=2)
    random = np.random.default_rng(3)
    shape = (w.input_height, w.input_width, w.input_channels)
    ties = np.zeros(shape, np.int8)
    ties[0, 0] = [3, -3, 9, -9, 127, -128]
    images = [random.integers(-128, 128, shape).astype(np.int8), ties, np.full(shape, -128, np.int8)]
    model = layer_model(core, _lowered(core, w, ties_up), images[:1], [(DType.INT8, (w.input_channels,))])
    inside = np.ones((1, 6, 1), np.bool_)
    for image, (found,) in zip(images, run(model, [[image] for image in images], tmp_path), strict=True):
        wanted = average_reference(image.reshape(1, 6, -1), inside, ties_up)
        assert np.array_equal(np.asarray(found).reshape(-1), wanted.reshape(-1))


@pytest.mark.parametrize(
    "w",
    [
        replace(WINDOW, kernel_height=4, output_height=2),
        replace(WINDOW, kernel_height=4),
        replace(WINDOW, kernel_height=5, kernel_width=3, pad_left=1),
        replace(WINDOW, input_height=128, kernel_height=128, input_width=65, kernel_width=65),
    ],
    ids=["many outputs", "a part of the image", "padding", "too many cells"],
)
def test_other_pools(w: Window) -> None:
    assert whole_average(isa_of("cortex-m4f"), w, False) is None
