# SPDX-License-Identifier: Apache-2.0
"""BROADCAST_TO and FILL: a tensor repeated along axes of length 1, or a scalar along all.

Source: TensorFlow Lite Micro, kernels/broadcast_to.cc, fill.cc.
"""

from __future__ import annotations

import numpy as np

from compiler.ops.constraints import constant, inputs_between
from compiler.ops.definition import Array, OperatorView, no_options
from compiler.ops.moving import moving


def broadcasts(view: OperatorView) -> str | None:
    """The input broadcasts to the output, whose shape is the one given."""
    moved, shape = (1, 0) if view.operator.op == "FILL" else (0, 1)
    source, output, wanted = view.input(moved).shape, view.output().shape, tuple(view.input(shape).constant.tolist())
    tail = output[len(output) - len(source) :] if len(source) <= len(output) else ()
    fits = len(tail) == len(source) and all(a in (1, b) for a, b in zip(source, tail, strict=True))
    return None if fits and wanted == output else f"{list(source)} to {list(wanted)}, output {list(output)}"


def scalar_value(view: OperatorView) -> str | None:
    """The value is a scalar."""
    shape = view.input(1).shape
    return None if shape == () else f"shape {list(shape)}"


def move(view: OperatorView, x: Array) -> list[Array]:
    return [np.broadcast_to(x, view.output().shape)]


DEFINITIONS = (
    moving("BROADCAST_TO", no_options, (inputs_between(2, 2), constant(1, "The shape"), broadcasts), move),
    moving(
        "FILL", no_options, (inputs_between(2, 2), constant(0, "The shape"), scalar_value, broadcasts), move, position=1
    ),
)
