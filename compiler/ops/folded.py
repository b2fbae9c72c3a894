# SPDX-License-Identifier: Apache-2.0
"""Operators whose result is known when a model is compiled: they always fold to constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.ops.constraints import constant, inputs_between
from compiler.ops.definition import Array, Constraint, OperatorDefinition, OperatorView, no_options


def of_shapes(
    name: str, constraints: Sequence[Constraint], result: Callable[[OperatorView], Array]
) -> OperatorDefinition:
    """The operator `name`, whose result depends on the shape of its only input."""
    return _folded(name, (inputs_between(1, 1), *constraints), result, True)


def of_constants(
    name: str, inputs: Sequence[str], constraints: Sequence[Constraint], result: Callable[[OperatorView], Array]
) -> OperatorDefinition:
    """The operator `name`, whose inputs, called `inputs`, decide the shape of its output and must be constant."""
    known = [constant(position, what) for position, what in enumerate(inputs)]
    return _folded(name, (inputs_between(len(inputs), len(inputs)), *known, *constraints), result, False)


def _folded(
    name: str, constraints: tuple[Constraint, ...], result: Callable[[OperatorView], Array], shapes_suffice: bool
) -> OperatorDefinition:
    def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
        del inputs
        return [result(view).astype(view.output().dtype.numpy)]

    def lower(view: OperatorView, isa: Isa) -> Lowered:
        raise ValueError(f"{view.operator}: a known result was not folded")

    return OperatorDefinition(name, no_options, constraints, reference, lower, shapes_suffice=shapes_suffice)
