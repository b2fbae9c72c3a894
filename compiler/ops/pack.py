# SPDX-License-Identifier: Apache-2.0
"""PACK: tensors of one shape stacked along a new axis.

Source: TensorFlow Lite Micro, kernels/pack.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.isa import Isa
from compiler.kernels.kernel import OUTPUT, Lowered, Place
from compiler.kernels.portable.copies import copy
from compiler.ops.broadcast import operand
from compiler.ops.definition import Array, OperatorDefinition, OperatorView
from compiler.ops.moving import block_axes, inputs_as_output, movable, steps


@dataclass(frozen=True)
class PackAttributes:
    """Options of PACK."""

    axis: int = 0


def parse(options: Any) -> PackAttributes:
    return PackAttributes() if options is None else PackAttributes(options.Axis())


def stacked_shape(view: OperatorView) -> str | None:
    """The inputs have one shape, and the output has one axis more, with a cell for each input."""
    shapes = [t.shape for t in view.inputs if t is not None]
    if not shapes:
        return "no inputs"
    rank = len(shapes[0]) + 1
    if set(shapes) != {shapes[0]} or not -rank <= view.attributes.axis < rank or 0 in shapes[0]:
        return f"{shapes} along axis {view.attributes.axis}"
    at = view.attributes.axis % rank
    expected = (*shapes[0][:at], len(shapes), *shapes[0][at:])
    return None if view.output().shape == expected else f"output {list(view.output().shape)}, not {list(expected)}"


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    return [np.stack([x for x in inputs if x is not None], axis=view.attributes.axis)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    output, size = view.output(), view.output().dtype.bytes
    at = view.attributes.axis % len(output.shape)
    calls = []
    for position, tensor in enumerate(view.inputs):
        assert tensor is not None
        counts = (*tensor.shape[:at], 1, *tensor.shape[at:])
        target = Place(OUTPUT.role, 0, position * steps(output.shape, size)[at])
        axes = block_axes(counts, counts, output.shape, size)
        calls.append(copy(isa, operand(view, position), target, axes, size))
    return Lowered(tuple(calls))


DEFINITIONS = (OperatorDefinition("PACK", parse, (movable, inputs_as_output, stacked_shape), reference, lower),)
