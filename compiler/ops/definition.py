# SPDX-License-Identifier: Apache-2.0
"""What an operator's module defines, and the view of one operator in its graph that the definition works on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.graph import Graph, Operator, Tensor
from compiler.isa import Isa
from compiler.kernels.kernel import Lowered

Array = NDArray[Any]


@dataclass(frozen=True)
class OperatorView:
    """An operator with its graph: operands by position."""

    graph: Graph
    operator: Operator

    @property
    def attributes(self) -> Any:
        return self.operator.attributes

    @property
    def inputs(self) -> tuple[Tensor | None, ...]:
        return self.graph.operands(self.operator)

    def optional(self, position: int) -> Tensor | None:
        """Input `position`, or None where it is absent."""
        return self.inputs[position] if position < len(self.inputs) else None

    def input(self, position: int = 0) -> Tensor:
        tensor = self.optional(position)
        if tensor is None:
            raise ValueError(f"{self.operator}: input {position} is absent")
        return tensor

    def output(self, position: int = 0) -> Tensor:
        return self.graph.tensor(self.operator.outputs[position])


Constraint = Callable[[OperatorView], str | None]
"""None when satisfied, else what was got ('input 1 is int16'). Its docstring is one sentence that states the rule: the
user's message and the documentation alike."""


@dataclass(frozen=True)
class Band:
    """What computes some rows of an output [1, height, width, channels]: attributes for it, and the rows that it reads
    of each input that is not constant, by position."""

    attributes: Any
    reads: Mapping[int, range]


Bands = Callable[[OperatorView, range], Band | None]
"""The band of an operator for these output rows; None where it has none."""


@dataclass(frozen=True)
class OperatorDefinition:
    """An operator: how its options are read, what is accepted, what it computes, how it runs.

    `parse(options)` gets the flatbuffer option table (`tflite` package object, or None where the file has none) and
    returns the attributes (a frozen dataclass or None). `constraints` are checked in order up to the first that
    fails. `reference(view, inputs)` computes the outputs bit-exactly with NumPy (docs of NUMERICS: TFLM's kernel).
    `lower(view, isa)` returns kernel calls whose places number the operator's *non-constant* operands by input
    position. `bands` tells how some rows of the output are computed alone. `updates` are the input positions of
    variables that the operator changes: the reference changes these arrays in place, and the kernels their memory.
    `computes` states that it has outputs,
    `shapes_suffice` that these follow from the inputs' shapes alone.
    """

    name: str
    parse: Callable[[Any], Any]
    constraints: tuple[Constraint, ...]
    reference: Callable[[OperatorView, Sequence[Array | None]], list[Array]]
    lower: Callable[[OperatorView, Isa], Lowered]
    bands: Bands | None = None
    updates: tuple[int, ...] = ()
    computes: bool = True
    shapes_suffice: bool = False


def rule(constraint: Constraint) -> str:
    """The sentence that states a constraint."""
    return " ".join((constraint.__doc__ or "").split())


def no_options(options: Any) -> None:
    """For operators without attributes."""
    del options


def as_dtype(array: Array, tensor: Tensor) -> Array:
    return np.asarray(array).astype(tensor.dtype.numpy).reshape(tensor.shape)
