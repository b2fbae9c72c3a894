# SPDX-License-Identifier: Apache-2.0
"""Operators that a pass replaces; one that is left over is refused with the sentence that says what the pass needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.ops.constraints import stated
from compiler.ops.definition import Array, OperatorDefinition, OperatorView


def replaced_operator(
    name: str, parse: Callable[[Any], Any], rule: str, got: Callable[[OperatorView], str], computes: bool = True
) -> OperatorDefinition:
    """The definition of an operator that never reaches the schedule; `got` says what was found in its place."""
    return OperatorDefinition(name, parse, (stated(rule, got),), _reference, _lower, computes=computes)


def _reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    raise ValueError(f"{view.operator} should have been replaced")


def _lower(view: OperatorView, isa: Isa) -> Lowered:
    raise ValueError(f"{view.operator} should have been replaced")
