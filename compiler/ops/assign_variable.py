# SPDX-License-Identifier: Apache-2.0
"""ASSIGN_VARIABLE: a variable's value for the next run.

Behind the passes input 0 is the variable itself, and no operator of the run reads it after this one.

Source: TensorFlow Lite, kernels/assign_variable.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import Constant, Lowered, Place, Role
from compiler.kernels.portable.copies import copy_bytes
from compiler.ops.constraints import stated
from compiler.ops.definition import Array, OperatorDefinition, OperatorView, no_options
from compiler.ops.var_handle import RULE

TARGET, VALUE = Place(Role.INPUT, 0), Place(Role.INPUT, 1)


def unresolved(view: OperatorView) -> str | None:
    """The rule of resource variables."""
    if len(view.inputs) != 2 or view.optional(0) is None or view.optional(1) is None:
        return f"{len(view.inputs)} inputs"
    target = view.input(0)
    if target.is_variable and target.dtype is not DType.RESOURCE:
        return None
    return f"'{target.name}' is a variable that is not"


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    target, value = inputs
    assert target is not None and value is not None
    target[...] = value
    return []


def lower(view: OperatorView, isa: Isa) -> Lowered:
    target, value = view.input(0), view.input(1)
    source = Constant(value.constant.tobytes()) if value.is_constant else VALUE
    return Lowered((copy_bytes(isa, source, TARGET, target.bytes),))


DEFINITIONS = (
    OperatorDefinition(
        "ASSIGN_VARIABLE", no_options, (stated(RULE, unresolved),), reference, lower, updates=(0,), computes=False
    ),
)
