# SPDX-License-Identifier: Apache-2.0
"""Operands of elementwise operators: broadcasting, and constants as arguments of kernels."""

from __future__ import annotations

import numpy as np

from compiler.kernels.kernel import Argument, Constant, Place, Role
from compiler.ops.definition import OperatorView


def broadcasts_to_output(view: OperatorView) -> str | None:
    """The inputs' shapes broadcast to the output's."""
    shapes, output = [t.shape for t in view.inputs if t is not None], view.output().shape
    try:
        joint = np.broadcast_shapes(*shapes)
    except ValueError:
        joint = None
    if joint == output and 0 not in output:
        return None
    return f"{' and '.join(str(list(shape)) for shape in shapes)} to {list(output)}"


def operand(view: OperatorView, position: int) -> Argument:
    """Input `position` as an argument of a kernel."""
    tensor = view.input(position)
    if tensor.data is None:
        return Place(Role.INPUT, position)
    return Constant(np.ascontiguousarray(tensor.data.astype(tensor.dtype.numpy)).tobytes())
