# SPDX-License-Identifier: Apache-2.0
"""DYNAMIC_UPDATE_SLICE: a tensor with a block of it replaced; the start, computed at run time, is clamped so that the
block lies inside.

Source: TensorFlow Lite, kernels/dynamic_update_slice.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import OUTPUT, Lowered
from compiler.kernels.portable.copies import copy_bytes
from compiler.kernels.portable.indexed_copies import Index, put
from compiler.ops.broadcast import operand
from compiler.ops.constraints import dtypes, inputs_between, same_shape
from compiler.ops.definition import Array, OperatorDefinition, OperatorView, no_options
from compiler.ops.moving import block_axes, moderate_size, of_type, quantized_as, steps


def block_fits(view: OperatorView) -> str | None:
    """The update has the type of input 0, lies inside it, and starts at an index for each axis."""
    data, update, starts = (view.input(position) for position in range(3))
    good = len(update.shape) == len(data.shape) and starts.shape == (len(data.shape),) and 0 not in update.shape
    good = good and all(a <= b for a, b in zip(update.shape, data.shape, strict=True)) and update.dtype is data.dtype
    return None if good else f"{update.dtype.name} {list(update.shape)} in {data.dtype.name} {list(data.shape)}"


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    data, update, starts = inputs
    assert data is not None and update is not None and starts is not None
    first = np.clip(starts, 0, np.array(data.shape, np.int64) - update.shape)
    changed = data.copy()
    changed[tuple(slice(at, at + n) for at, n in zip(first.tolist(), update.shape, strict=True))] = update
    return [changed]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    data, update, starts = (view.input(position) for position in range(3))
    size = data.dtype.bytes
    bounds = zip(data.shape, update.shape, steps(data.shape, size), strict=True)
    indexed = [Index(n - taken, step) for n, taken, step in bounds]
    axes = block_axes(update.shape, update.shape, data.shape, size)
    block = put(isa, operand(view, 1), operand(view, 2), axes, size, indexed, starts.dtype.bytes)
    return Lowered((copy_bytes(isa, operand(view, 0), OUTPUT, data.bytes), block))


DEFINITIONS = (
    OperatorDefinition(
        "DYNAMIC_UPDATE_SLICE",
        no_options,
        (
            inputs_between(3, 3),
            of_type(0),
            quantized_as(0),
            dtypes(2, DType.INT32, DType.INT64),
            same_shape,
            block_fits,
            moderate_size,
        ),
        reference,
        lower,
    ),
)
