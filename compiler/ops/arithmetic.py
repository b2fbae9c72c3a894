# SPDX-License-Identifier: Apache-2.0
"""What binary arithmetic with a fused activation has in common: its options, and the clamp of floats and of int32."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.codegen.builder import Function, Value
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.floats.functions import clamp, float_bits
from compiler.kernels.kernel import Argument
from compiler.kernels.portable.arrays import evaluate
from compiler.kernels.portable.formula import Formula
from compiler.ops.activation import FLOAT_RANGE, INTEGER_RANGE, Activation, float_range
from compiler.ops.definition import Array, OperatorView
from compiler.ops.elementwise import Kind, bound

Binary = Callable[[Function, Value, Value], Value]
INT32_RANGE = INTEGER_RANGE[DType.INT32]


@dataclass(frozen=True)
class ArithmeticAttributes:
    """Options of ADD, SUB, MUL and DIV."""

    activation: Activation = Activation.NONE


def parse(options: Any) -> ArithmeticAttributes:
    """Reads the fused activation."""
    if options is None:
        return ArithmeticAttributes()
    return ArithmeticAttributes(Activation(options.FusedActivationFunction()))


def float_kind(name: str, operation: Binary) -> Kind:
    """A float operation, clamped to the fused activation's range."""

    def bind(view: OperatorView) -> tuple[Formula, Sequence[Argument]]:
        low, high = float_range(view.attributes.activation)

        def emit(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
            return clamp(f, operation(f, *operands), low, high)

        return Formula(f"{name}_{float_bits(low):x}_{float_bits(high):x}", emit), ()

    return bound(lambda view, inputs: evaluate(bind(view)[0].emit, inputs), bind)


def int32_range(activation: Activation) -> tuple[int, int]:
    """The clamp of plain integers, whose unit is 1."""
    low, high = FLOAT_RANGE[activation]
    return (
        INT32_RANGE[0] if low == -math.inf else int(low),
        INT32_RANGE[1] if high == math.inf else int(high),
    )


def int32_kind(name: str, operation: Binary) -> Kind:
    """An operation on plain int32, which wraps, clamped to the fused activation's range."""

    def emit(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
        return f.minimum(f.maximum(operation(f, *operands), parameters[0]), parameters[1])

    def bind(view: OperatorView) -> tuple[Formula, Sequence[Argument]]:
        return Formula(name, emit, ("minimum", "maximum")), int32_range(view.attributes.activation)

    def values(view: OperatorView, inputs: Sequence[Array]) -> Array:
        return evaluate(emit, [x.astype(np.int32) for x in inputs], int32_range(view.attributes.activation))

    return bound(values, bind)
