# SPDX-License-Identifier: Apache-2.0
"""LEAKY_RELU: x, or alpha * x below 0. int8 and uint8 by a table of 256.

Source: TensorFlow Lite, kernels/internal/reference/leaky_relu.h; TensorFlow Lite Micro, kernels/leaky_relu_common.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable import leaky
from compiler.numerics import multiply_by_quantized_multiplier, quantize_multiplier
from compiler.ops import bands, byte_tables
from compiler.ops.activation import INTEGER_RANGE
from compiler.ops.constraints import (
    FLOAT,
    Q8,
    Q16,
    dtypes,
    inputs_between,
    int16_zero_points_are_zero,
    output_dtype_as_input,
    quantized_per_tensor,
    same_shape,
)
from compiler.ops.definition import Array, OperatorDefinition, OperatorView


@dataclass(frozen=True)
class LeakyReluAttributes:
    """Options of LEAKY_RELU."""

    alpha: float = 0.0


def parse(options: Any) -> LeakyReluAttributes:
    return LeakyReluAttributes() if options is None else LeakyReluAttributes(float(options.Alpha()))


def moderate_ratio(view: OperatorView) -> str | None:
    """The input scale (times alpha, too) is below 2**13 times the output scale, and alpha finite."""
    if not np.isfinite(view.attributes.alpha):
        return f"alpha {view.attributes.alpha:g}"
    if view.input().dtype is FLOAT or max(abs(r) for r in ratios(view)) < 1 << 13:
        return None
    return "ratios " + ", ".join(f"{r:g}" for r in ratios(view))


def ratios(view: OperatorView) -> tuple[float, float]:
    """The real multipliers of inputs from 0 on and below 0, in double precision."""
    source, output = view.input().scale, view.output().scale
    return source / output, source * float(np.float32(view.attributes.alpha)) / output


def _quantized(view: OperatorView, x: Array) -> Array:
    source, output = view.input(), view.output()
    value = x.astype(np.int64) - source.zero_point
    above, below = (multiply_by_quantized_multiplier(value, *quantize_multiplier(r)) for r in ratios(view))
    result = np.where(value >= 0, above, below) + output.zero_point
    return np.asarray(np.clip(result, *INTEGER_RANGE[output.dtype]), output.dtype.numpy)


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    (x,) = inputs
    assert x is not None
    if x.dtype == np.float32:
        with np.errstate(all="ignore"):
            return [np.where(x > 0, x, x * np.float32(view.attributes.alpha))]
    return [_quantized(view, x)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    source = view.input()
    if source.dtype is FLOAT:
        return leaky.float_leaky_relu(isa, source.elements, view.attributes.alpha)
    if source.dtype is Q16:
        return leaky.int16_leaky_relu(isa, source.elements, *(quantize_multiplier(r) for r in ratios(view)))
    return byte_tables.lower(isa, source, _quantized(view, byte_tables.inputs_of(source)))


DEFINITIONS = (
    OperatorDefinition(
        "LEAKY_RELU",
        parse,
        (
            inputs_between(1, 1),
            dtypes(0, Q8, DType.UINT8, Q16, FLOAT),
            output_dtype_as_input(),
            same_shape,
            quantized_per_tensor(0),
            int16_zero_points_are_zero,
            moderate_ratio,
        ),
        reference,
        lower,
        bands=bands.elementwise,
    ),
)
