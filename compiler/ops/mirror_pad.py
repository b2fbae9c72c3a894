# SPDX-License-Identifier: Apache-2.0
"""MIRROR_PAD: a tensor continued past its ends by its mirror image, with the edge cells (SYMMETRIC) or without
(REFLECT).

Source: TensorFlow Lite Micro, kernels/mirror_pad.cc.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from compiler.ops.constraints import constant, inputs_between
from compiler.ops.definition import Array, OperatorView
from compiler.ops.moving import moving


class Mirror(Enum):
    """The schema's MirrorPadMode."""

    REFLECT = 0
    SYMMETRIC = 1


@dataclass(frozen=True)
class MirrorPadAttributes:
    """Options of MIRROR_PAD."""

    mode: Mirror = Mirror.REFLECT


def parse(options: Any) -> MirrorPadAttributes:
    return MirrorPadAttributes() if options is None else MirrorPadAttributes(Mirror(options.Mode()))


def paddings(view: OperatorView) -> list[list[int]]:
    """[before, after] of each axis."""
    pairs: list[list[int]] = view.input(1).constant.tolist()
    return pairs


def mirrored_once(view: OperatorView) -> str | None:
    """There is a pair of paddings for each axis, none longer than what there is to mirror."""
    shape, table = view.input().shape, view.input(1).constant
    without = 1 if view.attributes.mode is Mirror.REFLECT else 0
    good = table.shape == (len(shape), 2) and all(
        0 <= pad <= size - without for size, pair in zip(shape, paddings(view), strict=True) for pad in pair
    )
    return None if good else f"paddings {table.tolist()} of {list(shape)}"


def move(view: OperatorView, x: Array) -> list[Array]:
    if view.attributes.mode is Mirror.REFLECT:
        return [np.pad(x, paddings(view), "reflect")]
    return [np.pad(x, paddings(view), "symmetric")]


DEFINITIONS = (moving("MIRROR_PAD", parse, (inputs_between(2, 2), constant(1, "The paddings"), mirrored_once), move),)
