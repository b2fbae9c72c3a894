# SPDX-License-Identifier: Apache-2.0
"""L2_NORMALIZATION over the last axis: rows divided by the root of their sum of squares. int8 by the reference's
fixed-point root.

Source: TensorFlow Lite, kernels/l2norm.cc, kernels/internal/reference/integer_ops/l2normalization.h.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.fixed_point import inverse_square_root
from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable import rows
from compiler.numerics import multiply_by_quantized_multiplier
from compiler.ops import layers
from compiler.ops.activation import Activation
from compiler.ops.arithmetic import parse
from compiler.ops.constraints import (
    FLOAT,
    Q8,
    dtypes,
    inputs_between,
    output_dtype_as_input,
    quantized_per_tensor,
    same_shape,
)
from compiler.ops.definition import Array, OperatorDefinition, OperatorView
from compiler.ops.log_softmax import has_a_last_axis

OUTPUT_BITS = 7


def no_activation(view: OperatorView) -> str | None:
    """There is no fused activation."""
    activation = view.attributes.activation
    return None if activation is Activation.NONE else activation.name


def output_range(view: OperatorView) -> str | None:
    """A quantised output has scale 1/128 and zero point 0."""
    output = view.output()
    if output.dtype is FLOAT or (output.scale, output.zero_point) == (1 / 128, 0):
        return None
    return f"scale {output.scale:g} zero point {output.zero_point}"


def moderate_depth(view: OperatorView) -> str | None:
    """The last axis of an INT8 input has less than 33,000 elements, so that the sum of squares stays below 2**31."""
    depth = view.input().shape[-1]
    return None if view.input().dtype is FLOAT or depth < 33000 else f"{depth} elements"


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    (x,) = inputs
    assert x is not None
    lines = x.reshape(-1, x.shape[-1])
    if x.dtype == np.float32:
        total = np.zeros((len(lines), 1), np.float32)
        with np.errstate(all="ignore"):
            for column in range(lines.shape[1]):
                total += lines[:, column : column + 1] * lines[:, column : column + 1]
            norm, least = np.sqrt(total), np.float32(rows.EPSILON)
            return [(lines / np.where(norm < least, least, norm)).reshape(x.shape)]
    centred = lines.astype(np.int64) - view.input().zero_point
    multipliers, shifts = inverse_square_root((centred * centred).sum(axis=1, keepdims=True))
    scaled = multiply_by_quantized_multiplier(centred, multipliers, shifts + OUTPUT_BITS)
    return [np.clip(scaled, -128, 127).astype(np.int8).reshape(x.shape)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    source = view.input()
    depth = source.shape[-1]
    if source.dtype is FLOAT:
        return rows.float_l2(isa, source.elements // depth, depth)
    return rows.byte_l2(isa, source.elements // depth, depth, source.zero_point)


DEFINITIONS = (
    OperatorDefinition(
        "L2_NORMALIZATION",
        parse,
        (
            inputs_between(1, 1),
            dtypes(0, Q8, FLOAT),
            output_dtype_as_input(),
            same_shape,
            has_a_last_axis,
            layers.clamping_activation,
            no_activation,
            quantized_per_tensor(0),
            output_range,
            moderate_depth,
        ),
        reference,
        lower,
    ),
)
