# SPDX-License-Identifier: Apache-2.0
"""GATHER_ND: parts of a tensor, each named by an index for each leading axis.

Constant indices must name cells that exist; one that is computed at run time and does not counts as the nearest.
Source: TensorFlow Lite Micro, kernels/gather_nd.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable.index_maps import numbered
from compiler.kernels.portable.indexed_copies import Index, Rows, gather
from compiler.ops.broadcast import operand
from compiler.ops.constraints import dtypes, inputs_between
from compiler.ops.definition import Array, OperatorDefinition, OperatorView, no_options
from compiler.ops.moving import lower_cells, moderate_size, of_type, quantized_as, steps


def gathered_shape(view: OperatorView) -> str | None:
    """The last axis of the indices has an index for each of the leading axes of the data, and the output has the
    others in their place."""
    data, indices = view.input(0).shape, view.input(1).shape
    good = bool(indices) and 0 < indices[-1] <= len(data) and 0 not in (*data, *indices)
    expected = (*indices[:-1], *data[indices[-1] :]) if good else ()
    fault = f"{list(data)} by {list(indices)}, output {list(view.output().shape)}"
    return None if good and view.output().shape == expected else fault


def cells_exist(view: OperatorView) -> str | None:
    """Constant indices lie inside the axes."""
    indices, shape = view.input(1).data, view.input(0).shape
    if indices is None or (indices.min() >= 0 and (indices < shape[: indices.shape[-1]]).all()):
        return None
    return f"indices from {indices.min()} to {indices.max()} of {list(shape)}"


def _gathered(data: Array, indices: Array) -> Array:
    depth = indices.shape[-1]
    chosen = np.clip(indices, 0, np.array(data.shape[:depth]) - 1)
    found: Array = data[tuple(np.moveaxis(chosen, -1, 0))]
    return found


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    data, indices = inputs
    assert data is not None and indices is not None
    return [_gathered(data, indices)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    data, indices = view.input(0), view.input(1)
    if indices.data is not None:
        return lower_cells(view, isa, [_gathered(numbered(data.shape), indices.data)])
    depth = indices.shape[-1]
    axes = tuple(Index(n - 1, step) for n, step in zip(data.shape, steps(data.shape, data.dtype.bytes), strict=True))
    row = prod(data.shape[depth:]) * data.dtype.bytes
    rows = Rows(1, 1, 0, prod(indices.shape[:-1]), row, axes[:depth])
    return Lowered((gather(isa, operand(view, 0), operand(view, 1), rows, indices.dtype.bytes),))


DEFINITIONS = (
    OperatorDefinition(
        "GATHER_ND",
        no_options,
        (
            inputs_between(2, 2),
            of_type(0),
            quantized_as(0),
            dtypes(1, DType.INT32, DType.INT64),
            gathered_shape,
            moderate_size,
            cells_exist,
        ),
        reference,
        lower,
    ),
)
