# SPDX-License-Identifier: Apache-2.0
"""Convolutions between blocks cut and joined become dilated ones, with the same bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler.graph import DType, Graph, Operator
from compiler.ops.conv_2d import Conv2DAttributes
from compiler.ops.geometry import ExplicitPadding, Padding
from compiler.passes import run_passes
from compiler.passes.fuse_dilation import fuse_dilation
from compiler.reference import outputs_of
from tests.unit.compiler.ops.build import tensor

HEIGHT, WIDTH = 7, 9


def blocks(block: tuple[int, int], pads: list[list[int]], crops: list[list[int]], stride: int = 1) -> Graph:
    """0 -> SPACE_TO_BATCH_ND -> 4 -> CONV_2D (3x3, VALID) -> 6 -> BATCH_TO_SPACE_ND -> 7, on a 1x7x9x2 image."""
    cells = block[0] * block[1]
    cut = [(size + sum(pad)) // n for size, pad, n in zip((HEIGHT, WIDTH), pads, block, strict=True)]
    slid = [(size - 3) // stride + 1 for size in cut]
    whole = [size * n - sum(crop) for size, n, crop in zip(slid, block, crops, strict=True)]
    weights = np.random.default_rng(1).integers(-127, 128, (3, 3, 3, 2))
    tensors = [
        tensor(0, (1, HEIGHT, WIDTH, 2), scale=0.5, zero_point=3),
        tensor(1, (2,), DType.INT32, None, data=block),
        tensor(2, (2, 2), DType.INT32, None, data=pads),
        tensor(3, (2, 2), DType.INT32, None, data=crops),
        tensor(4, (cells, *cut, 2), scale=0.5, zero_point=3),
        tensor(5, (3, 3, 3, 2), scale=0.01, data=weights),
        tensor(6, (cells, *slid, 3), zero_point=-5),
        tensor(7, (1, *whole, 3), zero_point=-5),
    ]
    operators = (
        Operator(0, "SPACE_TO_BATCH_ND", (0, 1, 2), (4,)),
        Operator(1, "CONV_2D", (4, 5), (6,), Conv2DAttributes(Padding.VALID, stride, stride)),
        Operator(2, "BATCH_TO_SPACE_ND", (6, 1, 3), (7,)),
    )
    return Graph("test", {t.index: t for t in tensors}, operators, (0,), (7,))


@pytest.mark.parametrize(
    ("block", "pads", "crops", "padding"),
    [
        ((2, 2), [[2, 3], [2, 3]], [[0, 1], [0, 1]], ExplicitPadding(2, 2, 2, 2)),
        ((1, 2), [[0, 0], [0, 1]], [[0, 0], [0, 1]], ExplicitPadding(0, 0, 0, 0)),
        ((3, 2), [[2, 3], [2, 1]], [[1, 1], [0, 0]], ExplicitPadding(1, 2, 2, 1)),
    ],
)
def test_blocks_become_dilation(
    block: tuple[int, int], pads: list[list[int]], crops: list[list[int]], padding: ExplicitPadding
) -> None:
    before = blocks(block, pads, crops)
    after = run_passes(before)
    (convolution,) = after.operators
    assert convolution.op == "CONV_2D" and (convolution.inputs, convolution.outputs) == ((0, 5), (7,))
    assert convolution.attributes == Conv2DAttributes(padding, 1, 1, *block)
    x = np.random.default_rng(2).integers(-128, 128, (1, HEIGHT, WIDTH, 2)).astype(np.int8)
    np.testing.assert_array_equal(outputs_of(before, [x])[0], outputs_of(after, [x])[0])


def test_what_is_no_dilation_stays() -> None:
    pads, crops = [[2, 3], [2, 3]], [[0, 1], [0, 1]]
    plain = blocks((2, 2), pads, crops)
    assert len(fuse_dilation(plain).operators) == 1
    rescaled = plain.with_tensors(tensor(7, plain.tensor(7).shape, zero_point=-6))
    read_twice = replace(plain, outputs=(6, 7))
    unlike = plain.with_tensors(tensor(8, (2,), DType.INT32, None, data=(1, 4)))
    unlike = replace(unlike, operators=(*plain.operators[:2], replace(plain.operators[2], inputs=(6, 8, 3))))
    cropped = blocks((2, 2), [[0, 1], [0, 1]], [[1, 0], [1, 0]])
    for graph in (rescaled, read_twice, unlike, cropped, blocks((2, 2), pads, crops, stride=2)):
        assert len(fuse_dilation(graph).operators) == 3
