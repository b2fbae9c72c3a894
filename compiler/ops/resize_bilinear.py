# SPDX-License-Identifier: Apache-2.0
"""RESIZE_BILINEAR: height and width changed by linear interpolation. INT8 and INT16 use weights in steps of 2**-10;
UINT8 is computed in floats.

Source: TensorFlow Lite, kernels/internal/reference/resize_bilinear.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable.bilinear import FRACTION_BITS, Tap, bilinear
from compiler.kernels.portable.loops import ELEMENTS
from compiler.ops.constraints import (
    FLOAT,
    Q8,
    Q16,
    constant,
    dtypes,
    inputs_between,
    output_dtype_as_input,
    rank,
    same_quantization,
)
from compiler.ops.definition import Array, OperatorDefinition, OperatorView
from compiler.ops.moving import moderate_size
from compiler.ops.resize_nearest_neighbor import ResizeAttributes, parse, resized

ONE = 1 << FRACTION_BITS


def not_both_grids(view: OperatorView) -> str | None:
    """Corners are not aligned and pixels centred at once."""
    a: ResizeAttributes = view.attributes
    return "both are set" if a.align_corners and a.half_pixel_centers else None


def same_batches(view: OperatorView) -> str | None:
    """Batches and channels stay, and nothing is empty."""
    source, output = view.input().shape, view.output().shape
    good = source[0] == output[0] and source[3] == output[3] and 0 not in source
    return None if good else f"{list(source)} to {list(output)}"


def integer_taps(count: int, size: int, a: ResizeAttributes) -> list[Tap]:
    """The taps of `count` output cells along an axis of `size` cells, with weights of 10 bits."""
    scale = (ONE * size + count // 2) // count
    if a.align_corners and count > 1:
        scale = (ONE * (size - 1) + (count - 1) // 2) // (count - 1)
    taps = []
    for cell in range(count):
        at = cell * scale + (scale // 2 - ONE // 2 if a.half_pixel_centers else 0)
        first, second = min(max(at // ONE, 0), size - 1), min(max(-(-at // ONE), 0), size - 1)
        # Past the ends both taps are one cell, and any weights that add up to one do.
        weight = at - ONE * first if second > first else 0
        taps.append(Tap(first, second, ONE - weight, weight))
    return taps


def float_taps(count: int, size: int, a: ResizeAttributes) -> list[Tap]:
    """The taps with weights in the source's float32."""
    f32 = np.float32
    aligned = a.align_corners and count > 1
    scale = f32(size - 1) / f32(count - 1) if aligned else f32(size) / f32(count)
    taps = []
    for cell in range(count):
        at = (f32(cell) + f32(0.5)) * scale - f32(0.5) if a.half_pixel_centers else f32(cell) * scale
        first, second = min(max(int(np.floor(at)), 0), size - 1), min(int(np.ceil(at)), size - 1)
        weight = at - f32(first)
        taps.append(Tap(first, second, float(f32(1) - weight), float(weight)))
    return taps


def taps(view: OperatorView) -> tuple[list[Tap], list[Tap]]:
    """The taps of rows and of columns."""
    source, output = view.input().shape, view.output().shape
    make = float_taps if view.input().dtype in (FLOAT, DType.UINT8) else integer_taps
    rows, columns = (make(output[axis], source[axis], view.attributes) for axis in (1, 2))
    return rows, columns


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    x = inputs[0]
    assert x is not None
    rows, columns = taps(view)
    kind: Any = np.float32 if view.input().dtype in (FLOAT, DType.UINT8) else np.int64
    total = None
    for column, column_weight in (("first", "first_weight"), ("second", "second_weight")):
        across = x.astype(kind).take([getattr(t, column) for t in columns], 2)
        by_column = np.array([getattr(t, column_weight) for t in columns], kind)[:, None]
        for row, row_weight in (("first", "first_weight"), ("second", "second_weight")):
            by_row = np.array([getattr(t, row_weight) for t in rows], kind)[:, None, None]
            part = across.take([getattr(t, row) for t in rows], 1) * by_row * by_column
            total = part if total is None else total + part
    assert total is not None
    if x.dtype == np.float32:
        return [total]
    if kind is np.float32:
        return [(total + np.float32(0.5)).astype(x.dtype)]
    rounded = (total + (1 << (2 * FRACTION_BITS - 1)) + (total >> 63)) >> (2 * FRACTION_BITS)
    return [rounded.astype(x.dtype)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    rows, columns = taps(view)
    return bilinear(isa, ELEMENTS[view.input().dtype], view.input().shape, rows, columns)


DEFINITIONS = (
    OperatorDefinition(
        "RESIZE_BILINEAR",
        parse,
        (
            inputs_between(2, 2),
            dtypes(0, Q8, Q16, DType.UINT8, FLOAT),
            output_dtype_as_input(),
            same_quantization,
            rank(0, 4),
            constant(1, "The size"),
            resized,
            same_batches,
            not_both_grids,
            moderate_size,
        ),
        reference,
        lower,
    ),
)
