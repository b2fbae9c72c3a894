# SPDX-License-Identifier: Apache-2.0
"""SQUARED_DIFFERENCE with broadcasting: (a - b) ** 2, quantised inputs brought to twice the larger scale first.

Source: TensorFlow Lite Micro, kernels/squared_difference.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.codegen.builder import Function, Value
from compiler.codegen.requantize import Multiplier, clamp, multiply_by_quantized_multiplier, split_shift
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import Argument
from compiler.kernels.portable.formula import Formula
from compiler.kernels.portable.rescale import saturate_30
from compiler.numerics import multiply_by_quantized_multiplier as rescaled
from compiler.numerics import quantize_multiplier
from compiler.ops.activation import INTEGER_RANGE
from compiler.ops.definition import Array, OperatorView
from compiler.ops.elementwise import QUANTIZED, bound, centred, clipped, computed, definition

LEFT_SHIFTS = {DType.INT8: 7, DType.INT16: 0}
PARAMETERS = (
    "first_zero", "first_multiplier", "first_right", "second_zero", "second_multiplier", "second_right", "left_shift",
    "multiplier", "left", "right", "zero_point", "minimum", "maximum",
)  # fmt: skip


def multipliers(view: OperatorView) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """The quantised multipliers of both inputs and of the square."""
    first, second, output = view.input(0), view.input(1), view.output()
    twice = 2.0 * max(first.scale, second.scale)
    unit = float(np.float32(1 << 2 * LEFT_SHIFTS[first.dtype]) * np.float32(output.scale))
    return (
        quantize_multiplier(first.scale / twice),
        quantize_multiplier(second.scale / twice),
        quantize_multiplier(twice * twice / unit),
    )


def moderate_ratio(view: OperatorView) -> str | None:
    """The square, at most 2**30 in fixed point, does not overflow when it is brought to a quantised output's scale."""
    if view.input().dtype not in QUANTIZED:
        return None
    _, shift = multipliers(view)[2]
    return None if shift <= 0 else f"output scale {view.output().scale:g}"


def values(view: OperatorView, inputs: Sequence[Array]) -> Array:
    output, left = view.output(), LEFT_SHIFTS[view.input().dtype]
    *by, by_output = multipliers(view)
    first, second = (rescaled(centred(view, inputs, i) << left, *by[i]) for i in range(2))
    difference = first - second
    return clipped(rescaled(difference * difference, *by_output) + output.zero_point, output)


def _quantized(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    left_shift, multiplier, left, right, zero_point, minimum, maximum = parameters[6:]
    scaled = []
    for operand, zero, by, shift in zip(operands, parameters[0:6:3], parameters[1:6:3], parameters[2:6:3], strict=True):
        shifted = f.shl(f.sub(operand, zero), left_shift)
        scaled.append(multiply_by_quantized_multiplier(f, isa, shifted, Multiplier(by, 0, shift), small=True))
    difference = f.sub(*scaled)
    square = f.mul(difference, difference)
    result = multiply_by_quantized_multiplier(f, isa, square, Multiplier(multiplier, left, right))
    return clamp(f, isa, f.add(saturate_30(f, result), zero_point), minimum, maximum)


def _bind(view: OperatorView) -> tuple[Formula, Sequence[Argument]]:
    first, second, output = multipliers(view)
    return Formula("squared_difference", _quantized, PARAMETERS, lanes=2), (
        view.input(0).zero_point, first[0], -first[1], view.input(1).zero_point, second[0], -second[1],
        LEFT_SHIFTS[view.input().dtype], output[0], *split_shift(output[1]), view.output().zero_point,
        *INTEGER_RANGE[view.output().dtype],
    )  # fmt: skip


def _float(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    difference = f.fsub(*operands)
    return f.fmul(difference, difference)


def _int32(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    difference = f.sub(*operands)
    return f.mul(difference, difference)


DEFINITIONS = (
    definition(
        "SQUARED_DIFFERENCE",
        {
            **dict.fromkeys(LEFT_SHIFTS, bound(values, _bind)),
            DType.INT32: computed("squared_difference", _int32, lanes=4),
            DType.FLOAT32: computed("squared_difference", _float, lanes=4),
        },
        moderate_ratio,
        inputs=2,
    ),
)
