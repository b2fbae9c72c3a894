# SPDX-License-Identifier: Apache-2.0
"""DEQUANTIZE: quantised values to float, scale * (q - zero point). Constant float16 becomes float32 at build time.

Source: TensorFlow Lite, kernels/internal/reference/dequantize.h.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable import float_conversions, maps
from compiler.kernels.portable.loops import ELEMENTS
from compiler.ops import bands
from compiler.ops.constraints import dtypes, inputs_between, same_shape
from compiler.ops.definition import Array, OperatorDefinition, OperatorView, no_options


def float_output(view: OperatorView) -> str | None:
    """The output is FLOAT32."""
    output = view.output()
    return None if output.dtype is DType.FLOAT32 else output.dtype.name


def one_scale(view: OperatorView) -> str | None:
    """A quantised input has one scale and one zero point; a constant one may have one for each channel."""
    source = view.input()
    if source.dtype is DType.FLOAT16:
        return None
    quantization = source.quantization
    if quantization is None:
        return f"'{source.name}' has no quantisation"
    count = len(quantization.scales)
    if count == len(quantization.zero_points) and (
        count == 1 or (source.is_constant and count == source.shape[quantization.axis])
    ):
        return None
    return f"'{source.name}' has {count} scales and {len(quantization.zero_points)} zero points"


def half_floats_are_constant(view: OperatorView) -> str | None:
    """A FLOAT16 or INT4 input is constant."""
    source = view.input()
    if source.dtype in (DType.FLOAT16, DType.INT4) and not source.is_constant:
        return f"'{source.name}' is computed at run time"
    return None


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    (x,) = inputs
    assert x is not None
    source = view.input()
    if source.dtype is DType.FLOAT16:
        return [x.astype(np.float32)]
    quantization = source.quant
    shape = [1] * x.ndim
    if len(quantization.scales) > 1:
        shape[quantization.axis] = -1
    scales = np.array(quantization.scales, np.float32).astype(np.float64).reshape(shape)
    zero_points = np.array(quantization.zero_points, np.int64).reshape(shape)
    return [(scales * (x.astype(np.int64) - zero_points)).astype(np.float32).reshape(source.shape)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    source = view.input()
    numbers = (source.scale, source.zero_point)
    in_integers = (
        None
        if isa.has_float_unit
        else float_conversions.dequantize(isa, source.elements, ELEMENTS[source.dtype], *numbers)
    )
    return in_integers or maps.dequantize(isa, source.elements, source.dtype, *numbers)


DEFINITIONS = (
    OperatorDefinition(
        "DEQUANTIZE",
        no_options,
        (
            inputs_between(1, 1),
            dtypes(0, DType.INT8, DType.UINT8, DType.INT16, DType.INT4, DType.FLOAT16),
            float_output,
            same_shape,
            one_scale,
            half_floats_are_constant,
        ),
        reference,
        lower,
        bands=bands.elementwise,
    ),
)
