# SPDX-License-Identifier: Apache-2.0
"""What the comparisons have in common. Quantised inputs are brought to one scale by fixed-point steps, as the reference
does; where these keep the order of all raw values, the raw values are compared.

Source: TensorFlow Lite Micro, kernels/comparisons.cc; TensorFlow Lite, kernels/internal/reference/comparisons.h.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from compiler.codegen.builder import Function, Value
from compiler.codegen.requantize import Multiplier, multiply_by_quantized_multiplier
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import Argument
from compiler.kernels.portable.formula import Formula
from compiler.numerics import multiply_by_quantized_multiplier as rescaled
from compiler.numerics import quantize_multiplier
from compiler.ops.activation import INTEGER_RANGE
from compiler.ops.definition import Array, OperatorDefinition, OperatorView
from compiler.ops.elementwise import QUANTIZED, Kind, bound, centred, computed, definition

LEFT_SHIFT = 8
PARAMETERS = ("first_zero", "first_multiplier", "first_right", "second_zero", "second_multiplier", "second_right")
RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": np.equal, "!=": np.not_equal, ">": np.greater, ">=": np.greater_equal, "<": np.less, "<=": np.less_equal,
}  # fmt: skip


def comparison(name: str, relation: str, *more: DType) -> OperatorDefinition:
    """A comparison of quantised, integer or float values, and of the types `more`."""
    plain = name.lower()

    def integers(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
        return f.zext(f.compare(relation, *operands))

    def floats(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
        return f.zext(f.fcompare(relation, *operands))

    integer = computed(plain, integers, lanes=4)
    return definition(
        name,
        {
            **dict.fromkeys(QUANTIZED, _quantized(plain, relation, integer)),
            **dict.fromkeys((DType.INT32, DType.INT64, *more), integer),
            DType.FLOAT32: computed(plain, floats),
        },
        scales_below_one,
        inputs=2,
        output=DType.BOOL,
    )


def scales_below_one(view: OperatorView) -> str | None:
    """The scales of quantised inputs are below 1."""
    if view.input().dtype not in QUANTIZED:
        return None
    largest = max(view.input(0).scale, view.input(1).scale)
    return None if largest < 1 else f"scale {largest:g}"


def _scaled(view: OperatorView, inputs: Sequence[Array], position: int) -> Array:
    by = quantize_multiplier(view.input(position).scale)
    return rescaled(centred(view, inputs, position) << LEFT_SHIFT, *by)


def _quantized(name: str, relation: str, integer: Kind) -> Kind:
    compare = RELATIONS[relation]

    def values(view: OperatorView, inputs: Sequence[Array]) -> Array:
        return np.asarray(compare(_scaled(view, inputs, 0), _scaled(view, inputs, 1)))

    def emit(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
        scaled = []
        for position, operand in enumerate(operands):
            zero, multiplier, right = parameters[3 * position : 3 * position + 3]
            shifted = f.shl(f.sub(operand, zero), LEFT_SHIFT)
            by = Multiplier(multiplier, 0, right)
            scaled.append(multiply_by_quantized_multiplier(f, isa, shifted, by, small=True))
        return f.zext(f.compare(relation, *scaled))

    def bind(view: OperatorView) -> tuple[Formula, Sequence[Argument]]:
        numbers: list[int] = []
        for position in range(2):
            tensor = view.input(position)
            multiplier, shift = quantize_multiplier(tensor.scale)
            numbers += [tensor.zero_point, multiplier, -shift]
        return Formula(f"{name}_scaled", emit, PARAMETERS, lanes=2), numbers

    scaled = bound(values, bind)
    return Kind(values, lambda view, isa: (integer if is_raw(view) else scaled).lower(view, isa))


def is_raw(view: OperatorView) -> bool:
    """True where both inputs are scaled alike and scaling keeps different values different."""
    first, second = view.input(0), view.input(1)
    if (first.scale, first.zero_point) != (second.scale, second.zero_point):
        return False
    lowest, highest = INTEGER_RANGE[first.dtype]
    return bool((np.diff(_scaled(view, [np.arange(lowest, highest + 1)], 0)) > 0).all())
