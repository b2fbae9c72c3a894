# SPDX-License-Identifier: Apache-2.0
"""CONCATENATION: tensors joined along an axis; quantised ones must have one scale and zero point.

Source: TensorFlow Lite Micro, kernels/concatenation.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.isa import Isa
from compiler.kernels.copies import copy
from compiler.kernels.kernel import OUTPUT, Lowered, Place
from compiler.ops.activation import Activation
from compiler.ops.broadcast import operand
from compiler.ops.definition import Array, OperatorDefinition, OperatorView
from compiler.ops.moving import block_axes, inputs_as_output, movable, steps


@dataclass(frozen=True)
class ConcatenationAttributes:
    """Options of CONCATENATION."""

    axis: int = 0
    activation: Activation = Activation.NONE


def parse(options: Any) -> ConcatenationAttributes:
    if options is None:
        return ConcatenationAttributes()
    return ConcatenationAttributes(options.Axis(), Activation(options.FusedActivationFunction()))


def no_activation(view: OperatorView) -> str | None:
    """There is no fused activation."""
    activation = view.attributes.activation
    return None if activation is Activation.NONE else str(activation.name)


def joined_shape(view: OperatorView) -> str | None:
    """The inputs differ in the joined axis alone, and the output's is their sum."""
    shapes = [t.shape for t in view.inputs if t is not None]
    if not shapes:
        return "no inputs"
    rank, axis = len(shapes[0]), view.attributes.axis
    if not rank or not -rank <= axis < rank or any(len(s) != rank or 0 in s for s in shapes):
        return f"{shapes} along axis {axis}"
    at = axis % rank
    if len({(*s[:at], *s[at + 1 :]) for s in shapes}) != 1:
        return f"{shapes} along axis {axis}"
    expected = (*shapes[0][:at], sum(s[at] for s in shapes), *shapes[0][at + 1 :])
    return None if view.output().shape == expected else f"output {list(view.output().shape)}, not {list(expected)}"


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    return [np.concatenate([x for x in inputs if x is not None], axis=view.attributes.axis)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    output, size = view.output(), view.output().dtype.bytes
    at = view.attributes.axis % len(output.shape)
    offset, calls = 0, []
    for position, tensor in enumerate(view.inputs):
        assert tensor is not None
        axes = block_axes(tensor.shape, tensor.shape, output.shape, size)
        calls.append(copy(isa, operand(view, position), Place(OUTPUT.role, 0, offset), axes, size))
        offset += tensor.shape[at] * steps(output.shape, size)[at]
    return Lowered(tuple(calls))


DEFINITIONS = (
    OperatorDefinition(
        "CONCATENATION", parse, (movable, inputs_as_output, no_activation, joined_shape), reference, lower
    ),
)
