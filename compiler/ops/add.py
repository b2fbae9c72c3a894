# SPDX-License-Identifier: Apache-2.0
"""ADD and SUB with broadcasting.

Source: TensorFlow Lite Micro, kernels/add_common.cc, sub_common.cc; TensorFlow Lite,
kernels/internal/reference/integer_ops/add.h, reference/sub.h.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from compiler.graph import DType, Tensor
from compiler.isa import Isa, VectorIsa
from compiler.kernels import overlap
from compiler.kernels.kernel import Lowered, Overlap
from compiler.kernels.portable import quantized
from compiler.kernels.portable.formula import Operand, elementwise
from compiler.kernels.portable.linear import Function, fit
from compiler.kernels.portable.loops import ELEMENTS
from compiler.kernels.portable.quantized import LEFT_SHIFTS
from compiler.kernels.problems import IntegerSum
from compiler.numerics import multiply_by_quantized_multiplier, quantize_multiplier
from compiler.ops import bands, layers
from compiler.ops.activation import INTEGER_RANGE, quantized_range
from compiler.ops.arithmetic import float_kind, int32_kind, parse
from compiler.ops.broadcast import broadcasts_to_output, operand
from compiler.ops.constraints import (
    FLOAT,
    Q8,
    Q16,
    dtypes,
    inputs_between,
    int16_zero_points_are_zero,
    output_dtype_as_input,
    quantized_per_tensor,
    stated,
)
from compiler.ops.definition import Array, OperatorDefinition, OperatorView, rule

PLAIN = {
    1: {
        DType.INT32: int32_kind("add", lambda f, a, b: f.add(a, b)),
        DType.FLOAT32: float_kind("add", lambda f, a, b: f.fadd(a, b)),
    },
    -1: {
        DType.INT32: int32_kind("sub", lambda f, a, b: f.sub(a, b)),
        DType.FLOAT32: float_kind("sub", lambda f, a, b: f.fsub(a, b)),
    },
}
"""Types that are not quantised, by sign."""


@dataclass(frozen=True)
class SumScales:
    """The quantised multipliers of both inputs and of the sum: (multiplier, shift), shifts not positive."""

    first: tuple[int, int]
    second: tuple[int, int]
    output: tuple[int, int]
    left_shift: int


def sum_scales(view: OperatorView) -> SumScales:
    """The multipliers, each computed in double in the reference's order."""
    first, second, output = view.input(0), view.input(1), view.output()
    left_shift = LEFT_SHIFTS[ELEMENTS[output.dtype]]
    twice = 2.0 * max(first.scale, second.scale)
    return SumScales(
        quantize_multiplier(first.scale / twice),
        quantize_multiplier(second.scale / twice),
        quantize_multiplier(twice / ((1 << left_shift) * output.scale)),
        left_shift,
    )


def output_scale_not_tiny(view: OperatorView) -> str | None:
    """The output scale is above twice the larger input scale / 2**20 (INT16: 2**15)."""
    if view.output().dtype not in (Q8, DType.UINT8, Q16):
        return None
    twice = 2.0 * max(view.input(0).scale, view.input(1).scale)
    limit = twice / (1 << LEFT_SHIFTS[ELEMENTS[view.output().dtype]])
    return None if view.output().scale > limit else f"output scale {view.output().scale:g}"


def integer_sum(view: OperatorView, sign: int, first: Array, second: Array) -> Array:
    """The reference's first + sign * second, clamped, as int64."""
    scales, output = sum_scales(view), view.output()

    def scaled(values: Array, tensor: Tensor, by: tuple[int, int]) -> Array:
        shifted = (values.astype(np.int64) - tensor.zero_point) << scales.left_shift
        return multiply_by_quantized_multiplier(shifted, *by)

    total = scaled(first, view.input(0), scales.first) + sign * scaled(second, view.input(1), scales.second)
    value = multiply_by_quantized_multiplier(total, *scales.output) + output.zero_point
    return np.clip(value, *quantized_range(view.attributes.activation, output))


def _reference(sign: int) -> Callable[[OperatorView, Sequence[Array | None]], list[Array]]:
    def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
        first, second = inputs
        assert first is not None and second is not None
        output = view.output()
        plain = PLAIN[sign].get(output.dtype)
        if plain is not None:
            return [np.broadcast_to(plain.values(view, [first, second]), output.shape)]
        return [integer_sum(view, sign, first, second).astype(output.dtype.numpy)]

    return reference


def _lower(sign: int) -> Callable[[OperatorView, Isa], Lowered]:
    def lower(view: OperatorView, isa: Isa) -> Lowered:
        output, activation = view.output(), view.attributes.activation
        plain = PLAIN[sign].get(output.dtype)
        if plain is not None:
            return plain.lower(view, isa)
        minimum, maximum = quantized_range(activation, output)
        whole = (minimum, maximum) == INTEGER_RANGE[Q8]
        fitted = fit(_function(view, sign)) if output.dtype is not Q16 else None
        first, second, scales = view.input(0), view.input(1), sum_scales(view)
        if isinstance(isa, VectorIsa) and output.dtype is Q8 and first.elements == second.elements:
            vector = isa.integer_sum(
                IntegerSum(
                    operand(view, 0),
                    operand(view, 1),
                    output.elements,
                    sign < 0,
                    (first.zero_point, second.zero_point, output.zero_point),
                    (scales.first, scales.second, scales.output),
                    fitted,
                    minimum,
                    maximum,
                )
            )
            return replace(vector, overlaps=_in_order(view))
        element = ELEMENTS[output.dtype]
        inputs = [Operand(operand(view, i), element, view.input(i).shape) for i in range(2)]
        if fitted is not None:
            formula = quantized.linear(2, fitted.nudge != 0, whole)
            numbers = (*fitted.factors, *fitted.constants, minimum, maximum)
        else:
            formula = quantized.exact_sum(element, sign < 0, whole)
            numbers = (
                first.zero_point, scales.first[0], -scales.first[1],
                second.zero_point, scales.second[0], -scales.second[1],
                scales.output[0], -scales.output[1], output.zero_point, minimum, maximum,
            )  # fmt: skip
        return elementwise(isa, formula, inputs, element, output.shape, numbers)

    return lower


def _in_order(view: OperatorView) -> tuple[Overlap, Overlap]:
    """The vector form takes element by element, in order."""
    one = overlap.elementwise(view.output().elements, view.output().dtype.bytes, view.output().dtype.bytes)
    return replace(one, input=0), replace(one, input=1)


def _function(view: OperatorView, sign: int) -> Function:
    """The int8 or uint8 sum over all pairs of inputs."""
    first, second, output = view.input(0), view.input(1), view.output()
    lowest, highest = INTEGER_RANGE[output.dtype]
    everything = np.arange(lowest, highest + 1, dtype=np.int64)
    domains = (everything[:, None], everything[None, :])
    return Function(
        domains,
        integer_sum(view, sign, *domains),
        (first.scale / output.scale, sign * second.scale / output.scale),
        (first.zero_point, second.zero_point),
        output.zero_point,
        *quantized_range(view.attributes.activation, output),
    )


def _definition(name: str, sign: int) -> OperatorDefinition:
    one_scale = quantized_per_tensor(0, 1)
    constraints = (
        inputs_between(2, 2),
        dtypes(0, Q8, DType.UINT8, Q16, DType.INT32, FLOAT),
        same_input_types,
        output_dtype_as_input(),
        layers.clamping_activation,
        broadcasts_to_output,
        stated(rule(one_scale), lambda view: None if view.input().dtype is DType.INT32 else one_scale(view)),
        int16_zero_points_are_zero,
        output_scale_not_tiny,
    )
    return OperatorDefinition(name, parse, constraints, _reference(sign), _lower(sign), bands=bands.elementwise)


def same_input_types(view: OperatorView) -> str | None:
    """Both inputs have one type."""
    first, second = view.input(0).dtype, view.input(1).dtype
    return None if first is second else f"{first.name} and {second.name}"


DEFINITIONS = (_definition("ADD", 1), _definition("SUB", -1))
