# SPDX-License-Identifier: Apache-2.0
"""RESHAPE, SQUEEZE, EXPAND_DIMS: another shape for the same bytes; the file states the resulting shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compiler.ops.constraints import constant, inputs_between, same_elements
from compiler.ops.definition import Array, Constraint, OperatorDefinition, OperatorView, no_options
from compiler.ops.moving import moving


def move(view: OperatorView, x: Array) -> list[Array]:
    return [x.reshape(view.output().shape)]


@dataclass(frozen=True)
class SqueezeAttributes:
    """Options of SQUEEZE: the axes that are taken out, negative ones counted from the last; none: all of size 1."""

    axes: tuple[int, ...] = ()


def parse_squeeze(options: Any) -> SqueezeAttributes:
    if options is None:
        return SqueezeAttributes()
    return SqueezeAttributes(tuple(int(options.SqueezeDims(i)) for i in range(options.SqueezeDimsLength())))


def axes_of_one(view: OperatorView) -> str | None:
    """The axes taken out exist and have size 1."""
    shape = view.input().shape
    for axis in view.attributes.axes if isinstance(view.attributes, SqueezeAttributes) else ():
        if not -len(shape) <= axis < len(shape) or shape[axis] != 1:
            return f"axis {axis} of {list(shape)}"
    return None


def _definition(name: str, most_inputs: int, parse: Any = no_options, *more: Constraint) -> OperatorDefinition:
    what = "The new shape" if name == "RESHAPE" else "The axis"
    return moving(name, parse, (inputs_between(1, most_inputs), constant(1, what), same_elements, *more), move)


DEFINITIONS = (
    _definition("RESHAPE", 2),
    _definition("SQUEEZE", 1, parse_squeeze, axes_of_one),
    _definition("EXPAND_DIMS", 2),
)
