# SPDX-License-Identifier: Apache-2.0
"""UNPACK: the cells of an axis as tensors of their own.

Source: TensorFlow Lite Micro, kernels/unpack.cc.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.ops.definition import Array, OperatorView
from compiler.ops.moving import moving


@dataclass(frozen=True)
class UnpackAttributes:
    """Options of UNPACK."""

    axis: int = 0


def parse(options: Any) -> UnpackAttributes:
    return UnpackAttributes() if options is None else UnpackAttributes(options.Axis())


def an_output_a_cell(view: OperatorView) -> str | None:
    """There is one input, its axis exists, and each of its cells is an output."""
    axis, count = view.attributes.axis, len(view.operator.outputs)
    shape = view.input().shape
    good = len(view.inputs) == 1 and -len(shape) <= axis < len(shape) and shape[axis] == count
    return None if good else f"{count} outputs from axis {axis} of {list(shape)}"


def move(view: OperatorView, x: Array) -> list[Array]:
    axis = view.attributes.axis
    return [np.take(x, cell, axis) for cell in range(x.shape[axis])]


DEFINITIONS = (moving("UNPACK", parse, (an_output_a_cell,), move),)
