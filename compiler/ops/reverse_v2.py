# SPDX-License-Identifier: Apache-2.0
"""REVERSE_V2: axes run through backwards.

Source: TensorFlow Lite, kernels/reverse.cc.
"""

from __future__ import annotations

import numpy as np

from compiler.ops.constraints import constant, inputs_between
from compiler.ops.definition import Array, OperatorView, no_options
from compiler.ops.moving import moving


def _axes(view: OperatorView) -> list[int]:
    axes: list[int] = view.input(1).constant.reshape(-1).tolist()
    return axes


def axes_once(view: OperatorView) -> str | None:
    """The axes exist, each named once."""
    rank = len(view.input().shape)
    named = {axis + rank if axis < 0 else axis for axis in _axes(view)}
    good = len(named) == len(_axes(view)) and named <= set(range(rank))
    return None if good else f"axes {_axes(view)} of rank {rank}"


def move(view: OperatorView, x: Array) -> list[Array]:
    return [np.flip(x, tuple(_axes(view)))]


DEFINITIONS = (moving("REVERSE_V2", no_options, (inputs_between(2, 2), constant(1, "The axes"), axes_once), move),)
