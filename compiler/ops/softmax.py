# SPDX-License-Identifier: Apache-2.0
"""SOFTMAX over the last axis: exp(beta * x) divided by its sum.

Source: TensorFlow Lite, kernels/internal/reference/softmax.h; TensorFlow Lite Micro, kernels/softmax_common.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler import fixed_point, float_numerics
from compiler.graph import DType, Tensor
from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable import softmax as kernels
from compiler.numerics import multiply_by_quantized_multiplier, quantize_multiplier
from compiler.ops.constraints import inputs_between, quantized_per_tensor, same_shape
from compiler.ops.definition import Array, OperatorDefinition, OperatorView

BYTE_TYPES = (DType.INT8, DType.UINT8)
LARGEST_DEPTH = 4095
"""Above it the reference's sum of exponentials can overflow."""


@dataclass(frozen=True)
class SoftmaxAttributes:
    """Options of SOFTMAX."""

    beta: float = 1.0


def parse(options: Any) -> SoftmaxAttributes:
    return SoftmaxAttributes() if options is None else SoftmaxAttributes(float(options.Beta()))


def supported_types(view: OperatorView) -> str | None:
    """Input and output are FLOAT32, INT8, UINT8 or INT16 alike, or INT8 and INT16."""
    pair = (view.input().dtype, view.output().dtype)
    kinds = (DType.FLOAT32, *BYTE_TYPES, DType.INT16)
    allowed = (*((kind, kind) for kind in kinds), (DType.INT8, DType.INT16))
    return None if pair in allowed else f"input {pair[0].name}, output {pair[1].name}"


def output_scale(view: OperatorView) -> str | None:
    """The output is quantised to the whole range of its type: INT8 1/256 at -128, UINT8 1/256 at 0, INT16 1/32768 at 0
    (1/65536 at -32768 where the input is INT8)."""
    source, output = view.input(), view.output()
    if output.dtype is DType.FLOAT32:
        return None
    if output.dtype in BYTE_TYPES:
        wanted, slack = (1 / 256, -128 if output.dtype is DType.INT8 else 0), 0.0
    elif source.dtype is DType.INT8:
        wanted, slack = (1 / 65536, -32768), 0.001
    else:
        wanted, slack = (1 / 32768, 0), 0.001
    if output.zero_point == wanted[1] and abs(output.scale - wanted[0]) <= slack * wanted[0]:
        return None
    return f"scale {output.scale:.6g} zero point {output.zero_point}"


def int16_input_zero_point(view: OperatorView) -> str | None:
    """An INT16 input has zero point 0."""
    source = view.input()
    return f"zero point {source.zero_point}" if source.dtype is DType.INT16 and source.zero_point else None


def depth_is_small_enough(view: OperatorView) -> str | None:
    """The last axis exists and has from 1 to 4095 elements (any number for FLOAT32)."""
    shape = view.input().shape
    if not shape or shape[-1] < 1 or (view.input().dtype is not DType.FLOAT32 and shape[-1] > LARGEST_DEPTH):
        return f"shape {list(shape)}"
    return None


def positive_beta(view: OperatorView) -> str | None:
    """Beta is above zero, and beta times the input scale at least 2**-26 for quantised inputs."""
    source, beta = view.input(), view.attributes.beta
    if not 0 < beta < float("inf"):
        return f"beta {beta:g}"
    if source.dtype in BYTE_TYPES and beta * source.scale < 2.0**-26:
        return f"beta {beta:g}, scale {source.scale:g}"
    return None


def exponentials(source: Tensor, beta: float) -> Array:
    """exp(-difference * scale * beta) in Q0 for the differences 0..255 (int8, uint8) to the row's maximum; 0 where the
    reference leaves an element out."""
    multiplier, shift = fixed_point.softmax_scaling(beta, source.scale)
    differences = -np.arange(256)
    kept = differences >= -fixed_point.input_radius(5, shift)
    scaled = fixed_point.doubling_high_mul(np.where(kept, differences, 0) << shift, multiplier)
    return np.where(kept, fixed_point.exp_on_negative_values(scaled, 5), 0)


def _softmax_bytes(x: Array, table: Array, bits: int) -> Array:
    """Rows of differences' base values x [rows, depth] to unsigned results of `bits` bits."""
    exps = table[x.max(axis=1, keepdims=True) - x]
    total = fixed_point.rounding_shift(exps, 12).sum(axis=1, keepdims=True)
    headroom = 32 - np.frexp(total.astype(np.float64))[1]
    scale = fixed_point.one_over_one_plus((total << headroom) - (1 << 31))
    exponent = np.minimum(12 - headroom + 31 - bits, 31)
    result = fixed_point.rounding_shift(fixed_point.doubling_high_mul(scale, exps), exponent)
    return np.asarray(np.minimum(result, (1 << bits) - 1))


def _softmax_int16(x: Array, multiplier: int, shift: int) -> Array:
    rows = x.astype(np.int64)
    scaled = multiply_by_quantized_multiplier(rows - rows.max(axis=1, keepdims=True), multiplier, shift)
    exps = fixed_point.look_up(np.clip(scaled + 32767, -32768, 32767), kernels.exp_table())
    total = exps.sum(axis=1, keepdims=True)
    headroom = 32 - np.frexp(total.astype(np.float64))[1]
    shifted = ((total << (headroom - 1)) + (1 << 13)) >> 14
    reciprocal = fixed_point.look_up(np.clip(shifted - 98304, -32768, 32767), kernels.reciprocal_table())
    right = 31 - headroom
    return np.asarray(np.clip((exps * reciprocal + (np.int64(1) << (right - 1))) >> right, 0, 32767))


def int16_scaling(source: Tensor, beta: float) -> tuple[int, int]:
    """(multiplier, shift) that map a difference to -65535..0 for -10..0."""
    return quantize_multiplier(source.scale * float(np.float32(beta)) / (10.0 / 65535.0))


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    (x,) = inputs
    assert x is not None
    source, output, beta = view.input(), view.output(), view.attributes.beta
    rows = x.reshape(-1, source.shape[-1])
    if source.dtype is DType.FLOAT32:
        result = float_numerics.softmax(rows, beta)
    elif source.dtype is DType.INT16:
        result = _softmax_int16(rows, *int16_scaling(source, beta))
    else:
        bits = 8 * output.dtype.bytes
        result = _softmax_bytes(rows.astype(np.int64), exponentials(source, beta), bits) + output.zero_point
    return [result.astype(output.dtype.numpy).reshape(output.shape)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    source, output, beta = view.input(), view.output(), view.attributes.beta
    depth = source.shape[-1]
    rows = source.elements // depth
    if source.dtype is DType.FLOAT32:
        return kernels.float_softmax(isa, rows, depth, beta)
    if source.dtype is DType.INT16:
        return kernels.int16_softmax(isa, rows, depth, *int16_scaling(source, beta))
    return kernels.byte_softmax(isa, rows, depth, exponentials(source, beta), source.dtype, output.dtype)


DEFINITIONS = (
    OperatorDefinition(
        "SOFTMAX",
        parse,
        (
            inputs_between(1, 1),
            supported_types,
            same_shape,
            quantized_per_tensor(0),
            int16_input_zero_point,
            output_scale,
            depth_is_small_enough,
            positive_beta,
        ),
        reference,
        lower,
    ),
)
