# SPDX-License-Identifier: Apache-2.0
"""RESHAPE, SQUEEZE, EXPAND_DIMS: another shape for the same bytes; the file states the resulting shape."""

from __future__ import annotations

from compiler.ops.constraints import constant, inputs_between, same_elements
from compiler.ops.definition import Array, OperatorDefinition, OperatorView, no_options
from compiler.ops.moving import moving


def move(view: OperatorView, x: Array) -> list[Array]:
    return [x.reshape(view.output().shape)]


def _definition(name: str, most_inputs: int) -> OperatorDefinition:
    what = "The new shape" if name == "RESHAPE" else "The axis"
    return moving(name, no_options, (inputs_between(1, most_inputs), constant(1, what), same_elements), move)


DEFINITIONS = (_definition("RESHAPE", 2), _definition("SQUEEZE", 1), _definition("EXPAND_DIMS", 2))
