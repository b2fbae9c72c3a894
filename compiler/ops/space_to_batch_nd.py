# SPDX-License-Identifier: Apache-2.0
"""SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND: the cells of each block of space become batches, and the way back. What
space is padded with is the zero point.

Source: TensorFlow Lite Micro, kernels/space_to_batch_nd.cc, batch_to_space_nd.cc.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from compiler.ops.constraints import constant, inputs_between
from compiler.ops.definition import Array, OperatorView, no_options
from compiler.ops.moving import moving, padding


def blocks(view: OperatorView) -> list[int]:
    """The length of a block along each axis of space; these follow the batch."""
    lengths: list[int] = view.input(1).constant.reshape(-1).tolist()
    return lengths


def margins(view: OperatorView) -> list[list[int]]:
    """[before, after] of each axis of space: what is padded, or cropped."""
    pairs: list[list[int]] = view.input(2).constant.reshape(-1, 2).tolist()
    return pairs


def sound_blocks(view: OperatorView) -> str | None:
    """There is a block length above zero, and a pair of margins, not negative, for each axis of space."""
    lengths, table, rank = blocks(view), view.input(2).constant, len(view.input().shape)
    good = table.shape == (len(lengths), 2) and 0 < len(lengths) < rank and min(lengths) > 0 and table.min() >= 0
    return None if good else f"blocks {lengths}, margins {table.tolist()} of rank {rank}"


def whole_blocks(view: OperatorView) -> str | None:
    """Padded space consists of whole blocks."""
    space = _padded(view)
    good = all(size % block == 0 for size, block in zip(space, blocks(view), strict=True))
    return None if good else f"blocks {blocks(view)} in {space}"


def elements_of_blocks(view: OperatorView) -> str | None:
    """The output has the elements of padded space."""
    shape, space = view.input().shape, _padded(view)
    good = prod((shape[0], *space, *shape[1 + len(space) :])) == view.output().elements
    return None if good else f"{space} of {list(shape)}, output {list(view.output().shape)}"


def _padded(view: OperatorView) -> list[int]:
    """The sizes of space with its paddings."""
    space = view.input().shape[1 : 1 + len(blocks(view))]
    return [size + sum(pair) for size, pair in zip(space, margins(view), strict=True)]


def whole_batches(view: OperatorView) -> str | None:
    """The batches divide by the cells of a block, and cropping leaves some space."""
    batches, *space = view.input().shape
    grown = [size * block - sum(pair) for size, block, pair in zip(space, blocks(view), margins(view), strict=False)]
    good = batches % prod(blocks(view)) == 0 and min(grown) > 0
    return None if good else f"blocks {blocks(view)} of {batches} batches, cropped to {grown}"


def to_batch(view: OperatorView, x: Array, value: Any) -> Array:
    lengths = blocks(view)
    count, rest = len(lengths), x.ndim - 1 - len(lengths)
    padded = np.pad(x, [(0, 0), *map(tuple, margins(view)), *[(0, 0)] * rest], constant_values=value)
    batches, space, inner = padded.shape[0], padded.shape[1 : 1 + count], padded.shape[1 + count :]
    within = [n for size, block in zip(space, lengths, strict=True) for n in (size // block, block)]
    order = [*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count, 2), *range(2 * count + 1, 2 * count + 1 + rest)]
    cut = padded.reshape(batches, *within, *inner).transpose(order)
    return cut.reshape(-1, *within[::2], *inner)


def to_space(view: OperatorView, x: Array) -> list[Array]:
    lengths = blocks(view)
    count = len(lengths)
    space, inner = x.shape[1 : 1 + count], x.shape[1 + count :]
    cut = x.reshape(*lengths, -1, *space, *inner)
    woven = [axis for i in range(count) for axis in (count + 1 + i, i)]
    whole = cut.transpose(count, *woven, *range(2 * count + 1, cut.ndim))
    grown = [size * block for size, block in zip(space, lengths, strict=True)]
    kept = [slice(a, size - b) for size, (a, b) in zip(grown, margins(view), strict=True)]
    return [whole.reshape(-1, *grown, *inner)[(slice(None), *kept)]]


_SHARED = (inputs_between(3, 3), constant(1, "The block lengths"), constant(2, "The margins"), sound_blocks)
DEFINITIONS = (
    padding("SPACE_TO_BATCH_ND", no_options, (*_SHARED, whole_blocks, elements_of_blocks), to_batch),
    moving("BATCH_TO_SPACE_ND", no_options, (*_SHARED, whole_batches), to_space),
)
