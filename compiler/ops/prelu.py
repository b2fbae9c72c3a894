# SPDX-License-Identifier: Apache-2.0
"""PRELU: x, or alpha * x below 0, with alpha broadcast.

Source: TensorFlow Lite Micro, kernels/prelu_common.cc; TensorFlow Lite, kernels/internal/reference/prelu.h.
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
from compiler.numerics import multiply_by_quantized_multiplier as rescaled
from compiler.numerics import quantize_multiplier
from compiler.ops.activation import INTEGER_RANGE
from compiler.ops.constraints import same_shape
from compiler.ops.definition import Array, OperatorView
from compiler.ops.elementwise import bound, centred, clipped, computed, definition

QUANTIZED = (DType.INT8, DType.UINT8)
PARAMETERS = (
    "zero", "alpha_zero", "multiplier", "left", "right", "alpha_multiplier", "alpha_left", "alpha_right", "zero_point",
    "minimum", "maximum",
)  # fmt: skip


def ratios(view: OperatorView) -> tuple[float, float]:
    """The real multipliers of the input, and of its product with alpha."""
    source, alpha, output = view.input(0).scale, view.input(1).scale, view.output().scale
    return source / output, source * alpha / output


def moderate_ratios(view: OperatorView) -> str | None:
    """The multipliers of quantised values are below 2**13, so that nothing overflows."""
    if view.input().dtype not in QUANTIZED or max(ratios(view)) < 1 << 13:
        return None
    return "ratios " + ", ".join(f"{r:g}" for r in ratios(view))


def values(view: OperatorView, inputs: Sequence[Array]) -> Array:
    output = view.output()
    value, alpha = centred(view, inputs, 0), centred(view, inputs, 1)
    plain, steep = (quantize_multiplier(r) for r in ratios(view))
    scaled = np.where(value >= 0, rescaled(value, *plain), rescaled(value * alpha, *steep))
    return clipped(scaled + output.zero_point, output)


def _quantized(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    zero, alpha_zero, *multipliers, zero_point, minimum, maximum = parameters
    value, alpha = f.sub(operands[0], zero), f.sub(operands[1], alpha_zero)
    below = f.compare("<", value, 0)
    product = f.select(below, f.mul(value, alpha), value)
    by = (f.select(below, steep, plain) for plain, steep in zip(multipliers[:3], multipliers[3:], strict=True))
    scaled = multiply_by_quantized_multiplier(f, isa, product, Multiplier(*by))
    return clamp(f, isa, f.add(scaled, zero_point), minimum, maximum)


def _bind(view: OperatorView) -> tuple[Formula, Sequence[Argument]]:
    (plain, plain_shift), (steep, steep_shift) = (quantize_multiplier(r) for r in ratios(view))
    output = view.output()
    return Formula("prelu", _quantized, PARAMETERS, lanes=2), (
        view.input(0).zero_point, view.input(1).zero_point, plain, *split_shift(plain_shift),
        steep, *split_shift(steep_shift), output.zero_point, *INTEGER_RANGE[output.dtype],
    )  # fmt: skip


def _float(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    x, alpha = operands
    return f.select(f.fcompare(">=", x, f.float(0.0)), x, f.fmul(x, alpha))


DEFINITIONS = (
    definition(
        "PRELU",
        {**dict.fromkeys(QUANTIZED, bound(values, _bind)), DType.FLOAT32: computed("prelu", _float)},
        same_shape,
        moderate_ratios,
        inputs=2,
    ),
)
