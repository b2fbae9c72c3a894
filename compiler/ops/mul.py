# SPDX-License-Identifier: Apache-2.0
"""MUL with broadcasting: the product of the centred inputs, requantised by the scales' product over the output's.

Source: TensorFlow Lite Micro, kernels/mul_common.cc; TensorFlow Lite, kernels/internal/reference/mul.h,
kernels/internal/reference/integer_ops/mul.h.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.codegen.builder import Function, Value
from compiler.codegen.requantize import Multiplier, clamp, multiply_by_quantized_multiplier, split_shift
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import Argument
from compiler.kernels.portable.formula import Emit, Formula
from compiler.kernels.portable.rescale import saturate_30
from compiler.numerics import multiply_by_quantized_multiplier as rescaled
from compiler.numerics import quantize_multiplier
from compiler.ops import layers
from compiler.ops.activation import INTEGER_RANGE, quantized_range
from compiler.ops.arithmetic import float_kind, int32_kind, parse
from compiler.ops.definition import Array, OperatorView
from compiler.ops.elementwise import QUANTIZED, bound, centred, definition

PARAMETERS = ("first_zero", "second_zero", "multiplier", "left", "right", "zero_point", "minimum", "maximum")


def ratio(view: OperatorView) -> float:
    """The real multiplier of the product."""
    return view.input(0).scale * view.input(1).scale / view.output().scale


def largest_product(view: OperatorView) -> int:
    """A bound of the product's magnitude."""
    reach = 1
    for position in range(2):
        tensor = view.input(position)
        low, high = INTEGER_RANGE[tensor.dtype]
        reach *= max(high - tensor.zero_point, tensor.zero_point - low)
    return reach


def moderate_ratio(view: OperatorView) -> str | None:
    """Quantised products, shifted left by the multiplier's shift, stay below 2**31."""
    if view.input().dtype not in QUANTIZED:
        return None
    _, shift = quantize_multiplier(ratio(view))
    return None if largest_product(view) << max(shift, 0) < 1 << 31 else f"ratio {ratio(view):g}"


def values(view: OperatorView, inputs: Sequence[Array]) -> Array:
    output = view.output()
    product = centred(view, inputs, 0) * centred(view, inputs, 1)
    scaled = rescaled(product, *quantize_multiplier(ratio(view))) + output.zero_point
    return np.clip(scaled, *quantized_range(view.attributes.activation, output))


def _emit(small: bool) -> Emit:
    def emit(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
        first_zero, second_zero, multiplier, left, right, zero_point, minimum, maximum = parameters
        product = f.mul(f.sub(operands[0], first_zero), f.sub(operands[1], second_zero))
        scaled = multiply_by_quantized_multiplier(f, isa, product, Multiplier(multiplier, left, right), small)
        scaled = scaled if small else saturate_30(f, scaled)
        return clamp(f, isa, f.add(scaled, zero_point), minimum, maximum)

    return emit


def _bind(view: OperatorView) -> tuple[Formula, Sequence[Argument]]:
    output = view.output()
    multiplier, shift = quantize_multiplier(ratio(view))
    small = largest_product(view) << max(shift, 0) < 1 << 29
    formula = Formula("mul_small" if small else "mul", _emit(small), PARAMETERS)
    return formula, (
        view.input(0).zero_point, view.input(1).zero_point, multiplier, *split_shift(shift), output.zero_point,
        *quantized_range(view.attributes.activation, output),
    )  # fmt: skip


QUANTIZED_KIND = bound(values, _bind)
DEFINITIONS = (
    definition(
        "MUL",
        {
            **dict.fromkeys(QUANTIZED, QUANTIZED_KIND),
            DType.INT32: int32_kind("mul", lambda f, a, b: f.mul(a, b)),
            DType.FLOAT32: float_kind("mul", lambda f, a, b: f.fmul(a, b)),
        },
        layers.clamping_activation,
        moderate_ratio,
        inputs=2,
        parse=parse,
    ),
)
