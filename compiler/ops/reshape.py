# SPDX-License-Identifier: Apache-2.0
"""RESHAPE, SQUEEZE, EXPAND_DIMS: another shape for the same bytes; the file states the resulting shape."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.isa import Isa
from compiler.kernels.kernel import ALIAS, Lowered
from compiler.ops.constraints import constant, inputs_between, output_dtype_as_input, same_elements
from compiler.ops.definition import Array, OperatorDefinition, OperatorView, no_options


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    assert inputs[0] is not None
    return [inputs[0].reshape(view.output().shape)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    del view, isa
    return ALIAS


def _definition(name: str, most_inputs: int) -> OperatorDefinition:
    constraints = (
        inputs_between(1, most_inputs),
        output_dtype_as_input(),
        constant(1, "The new shape" if name == "RESHAPE" else "The axis"),
        same_elements,
    )
    return OperatorDefinition(name, no_options, constraints, reference, lower)


DEFINITIONS = (_definition("RESHAPE", 2), _definition("SQUEEZE", 1), _definition("EXPAND_DIMS", 2))
