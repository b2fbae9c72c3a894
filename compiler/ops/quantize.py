# SPDX-License-Identifier: Apache-2.0
"""QUANTIZE: float values to a quantised type, round(x / scale) + zero point, ties away from zero; or quantised values
to another scale, zero point or type.

Floats beyond the type saturate; NaN, which the reference leaves undefined, counts as infinite.
Source: TensorFlow Lite, kernels/internal/reference/quantize.h, requantize.h; TensorFlow Lite Micro,
kernels/quantize_common.cc.
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
from compiler.ops.activation import INTEGER_RANGE
from compiler.ops.constraints import inputs_between, quantized_per_tensor, same_shape
from compiler.ops.definition import Array, OperatorDefinition, OperatorView, no_options
from compiler.ops.rescaling import Rescaling

LARGEST = (1 << 30) - 1
"""No rescaled value goes beyond it (see `moderate_ratio`), so that INT32 outputs need no other clamp."""
TARGETS = ("INT8", "UINT8", "INT16")


def supported_types(view: OperatorView) -> str | None:
    """The input is FLOAT32, INT8, UINT8 or INT16, the output INT8, UINT8 or INT16; or the input is INT8 or INT16, the
    output INT32."""
    source, output = view.input().dtype.name, view.output().dtype.name
    known = source in ("FLOAT32", *TARGETS) and output in TARGETS
    return None if known or (source in ("INT8", "INT16") and output == "INT32") else f"input {source}, output {output}"


def rescaling(view: OperatorView) -> Rescaling:
    """The requantisation of quantised values."""
    source, output = view.input(), view.output()
    limits = INTEGER_RANGE[output.dtype] if output.dtype is not DType.INT32 else (-LARGEST, LARGEST)
    return Rescaling(source, output, source.scale / output.scale, *limits)


def int32_zero_point_is_zero(view: OperatorView) -> str | None:
    """An INT32 output has zero point 0."""
    output = view.output()
    return f"zero point {output.zero_point}" if output.dtype is DType.INT32 and output.zero_point else None


def moderate_ratio(view: OperatorView) -> str | None:
    """Rescaled values stay below 2**30, and the scales' ratio is above 2**-32."""
    return rescaling(view).fault() if view.input().dtype.is_integer else None


def quantize_floats(x: Array, scale: float, zero_point: int, dtype: np.dtype[np.int8]) -> Array:
    """The quantised values of floats, as `dtype`."""
    with np.errstate(all="ignore"):
        steps = (x.astype(np.float32) / np.float32(scale)).astype(np.float64)
    steps = np.where(np.isnan(steps), np.where(np.signbit(x), -np.inf, np.inf), steps)
    steps = np.clip(steps, -(2.0**22), 2.0**22)
    rounded = np.copysign(np.floor(np.abs(steps) + 0.5), steps).astype(np.int64)
    limits = np.iinfo(dtype)
    return np.clip(rounded + zero_point, limits.min, limits.max).astype(dtype)


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    (x,) = inputs
    assert x is not None
    output = view.output()
    if view.input().dtype.is_integer:
        return [rescaling(view).reference(x).astype(output.dtype.numpy)]
    return [quantize_floats(x, output.scale, output.zero_point, output.dtype.numpy)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    output = view.output()
    if view.input().dtype.is_integer:
        return rescaling(view).lower(isa)
    limits = INTEGER_RANGE[output.dtype]
    numbers = (output.scale, output.zero_point)
    in_integers = (
        None
        if isa.has_float_unit
        else float_conversions.quantize(isa, output.elements, ELEMENTS[output.dtype], *numbers, *limits)
    )
    return in_integers or maps.quantize(isa, output.elements, output.dtype, *numbers)


DEFINITIONS = (
    OperatorDefinition(
        "QUANTIZE",
        no_options,
        (
            inputs_between(1, 1),
            supported_types,
            same_shape,
            quantized_per_tensor(0),
            int32_zero_point_is_zero,
            moderate_ratio,
        ),
        reference,
        lower,
        bands=bands.elementwise,
    ),
)
