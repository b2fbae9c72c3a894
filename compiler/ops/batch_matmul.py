# SPDX-License-Identifier: Apache-2.0
"""BATCH_MATMUL: products of matrices, whose leading axes broadcast; either may be transposed.

int8 rescales with double rounding, and is a fully connected layer where the right matrix is constant; int16 sums in
64 bits and rescales with one rounding. Float sums in order.
Source: TensorFlow Lite Micro, kernels/batch_matmul.cc; TensorFlow Lite, kernels/internal/reference/batch_matmul.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from compiler import numerics
from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable.loops import ELEMENTS
from compiler.kernels.portable.matmul import Form, Matrices, double_finish, long_finish, matmul
from compiler.kernels.problems import FullyConnected
from compiler.numerics import (
    multiply_by_quantized_multiplier,
    multiply_by_quantized_multiplier_int64,
    quantize_multiplier,
)
from compiler.ops import layers
from compiler.ops.activation import INTEGER_RANGE, Activation
from compiler.ops.broadcast import operand
from compiler.ops.constraints import (
    FLOAT,
    Q8,
    Q16,
    dtypes,
    inputs_between,
    int16_zero_points_are_zero,
    output_dtype_as_input,
    quantized_per_tensor,
)
from compiler.ops.definition import Array, OperatorDefinition, OperatorView


@dataclass(frozen=True)
class BatchMatmulAttributes:
    """Options of BATCH_MATMUL: whether the last two axes of an input are swapped."""

    adj_x: bool = False
    adj_y: bool = False


def parse(options: Any) -> BatchMatmulAttributes:
    return BatchMatmulAttributes() if options is None else BatchMatmulAttributes(options.AdjX(), options.AdjY())


def matrices(view: OperatorView) -> Matrices | None:
    """The operands' geometry; None where the shapes do not fit each other."""
    lhs, rhs, output = view.input(0).shape, view.input(1).shape, view.output().shape
    if min(len(lhs), len(rhs), len(output)) < 2 or 0 in output:
        return None
    (rows, depth), (depth_too, columns) = lhs[-2:], rhs[-2:]
    lhs_steps, rhs_steps = (depth, 1), (columns, 1)
    if view.attributes.adj_x:
        rows, depth, lhs_steps = depth, rows, (1, depth)
    if view.attributes.adj_y:
        depth_too, columns, rhs_steps = columns, depth_too, (1, columns)
    try:
        leading = np.broadcast_shapes(lhs[:-2], rhs[:-2])
    except ValueError:
        return None
    if depth != depth_too or depth == 0 or output != (*leading, rows, columns):
        return None
    return Matrices(rows, depth, columns, lhs_steps, rhs_steps, (leading, lhs[:-2], rhs[:-2]))


def matching_shapes(view: OperatorView) -> str | None:
    """The inputs are matrices that can be multiplied, with leading axes that broadcast to the output's."""
    shapes = [list(tensor.shape) for tensor in (view.input(0), view.input(1), view.output())]
    return None if matrices(view) else f"{shapes[0]} and {shapes[1]} to {shapes[2]}"


def one_type(view: OperatorView) -> str | None:
    """Both inputs have one type. (The reference leaves the output of INT16 times INT8 empty.)"""
    first, second = view.input(0).dtype, view.input(1).dtype
    return None if first is second else f"{first.name} and {second.name}"


def is_shared_constant(view: OperatorView) -> bool:
    """True where the operator is a fully connected layer: one constant int8 matrix on the right of all rows."""
    second = view.input(1)
    rows_in_order = not view.attributes.adj_x or view.input(0).shape[-1] == 1
    return second.is_constant and second.dtype is Q8 and prod(second.shape[:-2]) == 1 and rows_in_order


def layer(view: OperatorView) -> FullyConnected:
    """The fully connected layer that a product with one constant matrix is."""
    first, second, output = view.input(0), view.input(1), view.output()
    weights = second.constant.reshape(second.shape[-2:]).astype(np.int8)
    weights = weights if view.attributes.adj_y else np.ascontiguousarray(weights.T)
    columns, depth = weights.shape
    product = float(np.float32(first.scale) * np.float32(second.scale))
    return FullyConnected(
        batches=first.elements // depth,
        weights=weights,
        bias=np.zeros(columns, np.int64),
        input_zero_point=first.zero_point,
        filter_zero_point=second.zero_point,
        requantization=layers.requantization([product / output.scale], columns, output, Activation.NONE),
    )


def multiplier(view: OperatorView) -> tuple[int, int]:
    """The quantised multiplier; the product of the input scales is rounded to float32."""
    product = float(np.float32(view.input(0).scale) * np.float32(view.input(1).scale))
    return quantize_multiplier(product / view.output().scale)


def moderate_sums(view: OperatorView) -> str | None:
    """INT8 sums of products stay below 2**31, results of the rescaling below 2**30."""
    if view.input().dtype is FLOAT:
        return None
    if is_shared_constant(view):
        return layers.moderate_multipliers(view)
    by, shift = multiplier(view)
    if view.input().dtype is Q16:
        return None if shift <= 0 else f"shift {shift}"
    reach = 1
    for tensor in (view.input(0), view.input(1)):
        reach *= max(127 - tensor.zero_point, tensor.zero_point + 128)
    m = matrices(view)
    largest = reach * (m.depth if m else 0)
    if largest << max(shift, 0) < 1 << 31 and largest * by * 2.0 ** (shift - 31) < 1 << 30:
        return None
    return f"sums up to {largest}"


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    lhs, rhs = inputs
    assert lhs is not None and rhs is not None
    lhs = np.swapaxes(lhs, -1, -2) if view.attributes.adj_x else lhs
    rhs = np.swapaxes(rhs, -1, -2) if view.attributes.adj_y else rhs
    output = view.output()
    if output.dtype is not FLOAT and is_shared_constant(view):
        found = numerics.fully_connected(layer(view), lhs.reshape(-1, lhs.shape[-1]))
        return [found.astype(output.dtype.numpy).reshape(output.shape)]
    if output.dtype is FLOAT:
        total = np.zeros(output.shape, np.float32)
        with np.errstate(all="ignore"):
            for d in range(lhs.shape[-1]):
                total += lhs[..., :, d, None] * rhs[..., None, d, :]
        return [total]
    sums = (lhs.astype(np.int64) - view.input(0).zero_point) @ (rhs.astype(np.int64) - view.input(1).zero_point)
    rescale = multiply_by_quantized_multiplier_int64 if output.dtype is Q16 else multiply_by_quantized_multiplier
    scaled = rescale(sums, *multiplier(view)) + output.zero_point
    return [np.clip(scaled, *INTEGER_RANGE[output.dtype]).astype(output.dtype.numpy)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    m, first, second, output = matrices(view), view.input(0), view.input(1), view.output()
    assert m is not None
    places = operand(view, 0), operand(view, 1)
    elements = ELEMENTS[first.dtype], ELEMENTS[second.dtype], ELEMENTS[output.dtype]
    if output.dtype is FLOAT:
        return matmul(isa, m, places, elements, Form.FLOAT)
    if is_shared_constant(view):
        return isa.fully_connected(layer(view))
    limits = INTEGER_RANGE[output.dtype]
    if output.dtype is Q16:
        return matmul(isa, m, places, elements, Form.LONG, long_finish(*multiplier(view), *limits))
    zero_points = first.zero_point, second.zero_point, output.zero_point
    return matmul(isa, m, places, elements, Form.DOUBLE, double_finish(zero_points, *multiplier(view), *limits))


DEFINITIONS = (
    OperatorDefinition(
        "BATCH_MATMUL",
        parse,
        (
            inputs_between(2, 2),
            dtypes(0, Q8, Q16, FLOAT),
            one_type,
            output_dtype_as_input(),
            matching_shapes,
            quantized_per_tensor(0, 1),
            int16_zero_points_are_zero,
            moderate_sums,
        ),
        reference,
        lower,
    ),
)
