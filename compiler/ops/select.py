# SPDX-License-Identifier: Apache-2.0
"""SELECT and SELECT_V2: input 1 where the condition holds, input 2 elsewhere. SELECT_V2 broadcasts all inputs;
SELECT takes a condition for each element, or for each cell of the first axis.

Source: TensorFlow Lite Micro, kernels/select.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable import select as kernels
from compiler.ops.broadcast import operand
from compiler.ops.constraints import dtypes, inputs_between
from compiler.ops.definition import Array, OperatorDefinition, OperatorView, no_options
from compiler.ops.moving import moderate_size, of_type, quantized_as


def _shapes(view: OperatorView) -> list[tuple[int, ...]]:
    """The inputs' shapes, made to broadcast."""
    condition, *others = (view.input(position).shape for position in range(3))
    if view.operator.op == "SELECT" and len(condition) == 1 and len(others[0]) > 1:
        condition = (*condition, *[1] * (len(others[0]) - 1))
    return [condition, *others]


def choices_alike(view: OperatorView) -> str | None:
    """Both choices have the type, scale and zero point of the output."""
    first, second = view.input(1), view.input(2)
    if first.dtype is not second.dtype:
        return f"{first.dtype.name} and {second.dtype.name}"
    same = not first.dtype.is_integer or first.quantization == second.quantization
    return None if same else f"{first.quantization} and {second.quantization}"


def broadcasts(view: OperatorView) -> str | None:
    """The inputs' shapes broadcast to the output's, which is not empty."""
    shapes, output = _shapes(view), view.output().shape
    try:
        joint = np.broadcast_shapes(*shapes)
    except ValueError:
        joint = None
    return None if joint == output and 0 not in output else f"{[list(s) for s in shapes]} to {list(output)}"


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    condition, first, second = (np.asarray(x).reshape(shape) for x, shape in zip(inputs, _shapes(view), strict=True))
    return [np.where(condition, first, second)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    operands = [operand(view, position) for position in range(3)]
    output = view.output()
    return Lowered((kernels.select(isa, operands, _shapes(view), output.shape, output.dtype.bytes),))


def _definition(name: str) -> OperatorDefinition:
    constraints = (
        inputs_between(3, 3),
        dtypes(0, DType.BOOL),
        of_type(1),
        quantized_as(1),
        choices_alike,
        broadcasts,
        moderate_size,
    )
    return OperatorDefinition(name, no_options, constraints, reference, lower)


DEFINITIONS = (_definition("SELECT"), _definition("SELECT_V2"))
