# SPDX-License-Identifier: Apache-2.0
"""HARD_SWISH: x * min(max(x + 3, 0), 6) / 6. int8 and uint8 by a table of 256.

Source: TensorFlow Lite, kernels/internal/reference/hard_swish.h; TensorFlow Lite Micro, kernels/hard_swish_common.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler import float_numerics
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.floats.functions import FloatFunction
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable import maps
from compiler.numerics import quantize_multiplier
from compiler.ops import bands, byte_tables
from compiler.ops.constraints import (
    FLOAT,
    Q8,
    dtypes,
    inputs_between,
    output_dtype_as_input,
    quantized_per_tensor,
    same_shape,
)
from compiler.ops.definition import Array, OperatorDefinition, OperatorView, no_options

SHIFT = 7
"""Inputs are shifted left by it: 9 bits become 16."""


def rescale_is_downwards(view: OperatorView) -> str | None:
    """The input scale / 128 is at most the output scale (for quantised inputs)."""
    source, output = view.input(), view.output()
    if source.dtype is FLOAT or _multipliers(view)[0][1] <= 0:
        return None
    return f"input scale {source.scale:.6g}, output scale {output.scale:.6g}"


def _multipliers(view: OperatorView) -> tuple[tuple[int, int], tuple[int, int]]:
    """((multiplier, shift) to the output's scale, (multiplier, shift) to steps of 3/32768), multipliers of 15 bits."""
    fine = np.float32(np.float32(1 / (1 << SHIFT)) * np.float32(view.input().scale))
    scales = float(fine / np.float32(view.output().scale)), float(fine / np.float32(3 / 32768))
    pairs = [quantize_multiplier(scale) for scale in scales]
    first, second = ((min((m + (1 << 15)) >> 16, 0x7FFF), shift) for m, shift in pairs)
    return first, second


def byte_table(view: OperatorView) -> Array:
    """The outputs for all 256 inputs, in ascending order of the input."""
    source, output = view.input(), view.output()
    (scale, exponent), (gate_scale, gate_exponent) = _multipliers(view)
    fine = (byte_tables.inputs_of(source) - source.zero_point) << SHIFT
    value = _doubling_high(fine, scale)
    gate = fine
    if gate_exponent > 0:
        gate = _saturated(gate << (gate_exponent - 1))
    gate = _doubling_high(gate, gate_scale)
    if gate_exponent > 0:
        gate = _saturated(gate << 1)
    else:
        gate = _rounding_shift(gate, -gate_exponent)
    gate = (gate + (1 << 15)) >> 1
    product = np.trunc(gate * value / (1 << 15)).astype(np.int64)
    limits = np.iinfo(output.dtype.numpy)
    result = _rounding_shift(product, -exponent) + output.zero_point
    return np.asarray(np.clip(result, limits.min, limits.max), output.dtype.numpy)


def _doubling_high(a: Array, b: int) -> Array:
    """SaturatingRoundingDoublingHighMul of int16 values; b is positive."""
    return np.asarray((a * b + (1 << 14)) >> 15)


def _rounding_shift(x: Array, bits: int) -> Array:
    half = 1 << bits >> 1
    return np.where(x >= 0, (x + half) >> bits, -((-x + half) >> bits))


def _saturated(x: Array) -> Array:
    return np.asarray(np.clip(x, -32768, 32767))


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    (x,) = inputs
    assert x is not None
    return [float_numerics.hard_swish(x) if x.dtype == np.float32 else byte_tables.apply(byte_table(view), x)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    source = view.input()
    if source.dtype is FLOAT:
        return maps.float_map(isa, source.elements, FloatFunction.HARD_SWISH)
    return byte_tables.lower(isa, source, byte_table(view))


DEFINITIONS = (
    OperatorDefinition(
        "HARD_SWISH",
        no_options,
        (
            inputs_between(1, 1),
            dtypes(0, Q8, DType.UINT8, FLOAT),
            output_dtype_as_input(),
            same_shape,
            quantized_per_tensor(0),
            rescale_is_downwards,
        ),
        reference,
        lower,
        bands=bands.elementwise,
    ),
)
