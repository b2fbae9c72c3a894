# SPDX-License-Identifier: Apache-2.0
"""TILE: a tensor repeated along its axes.

Source: TensorFlow Lite, kernels/tile.cc.
"""

from __future__ import annotations

from math import prod

import numpy as np

from compiler.ops.constraints import constant, inputs_between
from compiler.ops.definition import Array, OperatorView, no_options
from compiler.ops.moving import moving


def repeats(view: OperatorView) -> str | None:
    """There is a number of repeats, above zero, for each axis, and the output has the repeated elements."""
    counts, source = view.input(1).constant.reshape(-1).tolist(), view.input()
    good = len(counts) == len(source.shape) and min(counts, default=1) > 0
    good = good and source.elements * prod(counts) == view.output().elements
    return None if good else f"repeats {counts} of {list(source.shape)}, output {list(view.output().shape)}"


def move(view: OperatorView, x: Array) -> list[Array]:
    return [np.tile(x, view.input(1).constant.reshape(-1).tolist())]


DEFINITIONS = (moving("TILE", no_options, (inputs_between(2, 2), constant(1, "The repeats"), repeats), move),)
