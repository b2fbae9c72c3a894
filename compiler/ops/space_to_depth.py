# SPDX-License-Identifier: Apache-2.0
"""SPACE_TO_DEPTH and DEPTH_TO_SPACE: square blocks of pixels become channels, or channels blocks.

Source: TensorFlow Lite, kernels/internal/reference/{space_to_depth,depth_to_space}.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compiler.ops.constraints import inputs_between, rank
from compiler.ops.definition import Array, OperatorView
from compiler.ops.moving import moving


@dataclass(frozen=True)
class BlockAttributes:
    """Options of both: pixels along a side of a block."""

    block: int = 1


def parse(options: Any) -> BlockAttributes:
    return BlockAttributes() if options is None else BlockAttributes(options.BlockSize())


def whole_blocks(view: OperatorView) -> str | None:
    """The block size is above zero and divides height and width."""
    (_, height, width, _), block = view.input().shape, view.attributes.block
    good = block > 0 and height % block == 0 and width % block == 0
    return None if good else f"blocks of {block} in {height} x {width}"


def whole_depth(view: OperatorView) -> str | None:
    """The block size is above zero and its square divides the channels."""
    depth, block = view.input().shape[3], view.attributes.block
    return None if block > 0 and depth % (block * block) == 0 else f"blocks of {block} in {depth} channels"


def to_depth(view: OperatorView, x: Array) -> list[Array]:
    (batches, height, width, depth), block = x.shape, view.attributes.block
    cut = x.reshape(batches, height // block, block, width // block, block, depth)
    return [cut.transpose(0, 1, 3, 2, 4, 5).reshape(batches, height // block, width // block, -1)]


def to_space(view: OperatorView, x: Array) -> list[Array]:
    (batches, height, width, depth), block = x.shape, view.attributes.block
    cut = x.reshape(batches, height, width, block, block, depth // (block * block))
    return [cut.transpose(0, 1, 3, 2, 4, 5).reshape(batches, height * block, width * block, -1)]


DEFINITIONS = (
    moving("SPACE_TO_DEPTH", parse, (inputs_between(1, 1), rank(0, 4), whole_blocks), to_depth),
    moving("DEPTH_TO_SPACE", parse, (inputs_between(1, 1), rank(0, 4), whole_depth), to_space),
)
