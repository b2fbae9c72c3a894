# SPDX-License-Identifier: Apache-2.0
"""RESIZE_NEAREST_NEIGHBOR: height and width changed by repeating or leaving out pixels.

Source: TensorFlow Lite, kernels/internal/reference/resize_nearest_neighbor.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.ops.constraints import constant, inputs_between, rank
from compiler.ops.definition import Array, OperatorView
from compiler.ops.moving import moving


@dataclass(frozen=True)
class ResizeAttributes:
    """Options of both RESIZE operators: how the grids of pixels lie on each other."""

    align_corners: bool = False
    half_pixel_centers: bool = False


def parse(options: Any) -> ResizeAttributes:
    if options is None:
        return ResizeAttributes()
    return ResizeAttributes(bool(options.AlignCorners()), bool(options.HalfPixelCenters()))


def resized(view: OperatorView) -> str | None:
    """The new height and width are given, above zero, and are the output's."""
    size, output = view.input(1).constant.reshape(-1).tolist(), view.output().shape
    good = len(size) == 2 and min(size) > 0 and len(output) == 4 and tuple(size) == output[1:3]
    return None if good else f"size {size}, output {list(output)}"


def nearest(count: int, size: int, attributes: ResizeAttributes) -> list[int]:
    """The input cell of each of `count` output cells along an axis of `size` cells, in the source's float32."""
    aligned = attributes.align_corners and count > 1
    scale = np.float32(size - 1) / np.float32(count - 1) if aligned else np.float32(size) / np.float32(count)
    offset = np.float32(0.5 if attributes.half_pixel_centers else 0)
    at = (np.arange(count).astype(np.float32) + offset) * scale
    # Ties go away from zero, and there is nothing below zero; the sum is exact in double.
    cells = np.floor(at.astype(np.float64) + 0.5) if attributes.align_corners else np.floor(at)
    return [int(min(cell, size - 1)) for cell in cells]


def move(view: OperatorView, x: Array) -> list[Array]:
    _, height, width, _ = view.output().shape
    rows = x[:, nearest(height, x.shape[1], view.attributes)]
    return [rows[:, :, nearest(width, x.shape[2], view.attributes)]]


DEFINITIONS = (
    moving(
        "RESIZE_NEAREST_NEIGHBOR", parse, (inputs_between(2, 2), rank(0, 4), constant(1, "The size"), resized), move
    ),
)
