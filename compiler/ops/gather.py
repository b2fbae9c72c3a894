# SPDX-License-Identifier: Apache-2.0
"""GATHER and EMBEDDING_LOOKUP: cells of an axis chosen by indices.

Constant indices must name cells that exist; one that is computed at run time and does not counts as the nearest.
Source: TensorFlow Lite, kernels/internal/reference/gather.h, kernels/embedding_lookup.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable.index_maps import numbered
from compiler.kernels.portable.indexed_copies import Index, Rows, gather
from compiler.ops.broadcast import operand
from compiler.ops.constraints import dtypes, inputs_between
from compiler.ops.definition import Array, OperatorDefinition, OperatorView
from compiler.ops.moving import lower_cells, moderate_size, of_type, quantized_as


@dataclass(frozen=True)
class GatherAttributes:
    """Options of GATHER: the axis, and the leading axes that data and indices share."""

    axis: int = 0
    batch_dims: int = 0


def parse(options: Any) -> GatherAttributes:
    return GatherAttributes() if options is None else GatherAttributes(options.Axis(), options.BatchDims())


def parse_lookup(options: Any) -> GatherAttributes:
    del options
    return GatherAttributes()


def _operands(view: OperatorView) -> tuple[int, int]:
    """The positions of data and indices."""
    return (1, 0) if view.operator.op == "EMBEDDING_LOOKUP" else (0, 1)


def _axes(view: OperatorView) -> tuple[int, int]:
    """The axis and the batch axes, counted from the front."""
    data, indices = (view.input(position) for position in _operands(view))
    axis, batch_dims = view.attributes.axis, view.attributes.batch_dims
    batch_dims += len(indices.shape) if batch_dims < 0 else 0
    return axis + (len(data.shape) if axis < 0 else 0), batch_dims


def gathered_shape(view: OperatorView) -> str | None:
    """The axes exist, data and indices share the batch axes, and in the output the other axes of the indices stand in
    place of the axis."""
    data, indices = (view.input(position).shape for position in _operands(view))
    axis, batch = _axes(view)
    good = 0 <= batch <= min(len(indices), axis) and axis < len(data) and data[:batch] == indices[:batch]
    good = good and 0 not in (*data, *indices)
    expected = (*data[:axis], *indices[batch:], *data[axis + 1 :]) if good else ()
    fault = f"axis {axis} of {list(data)} by {list(indices)}, output {list(view.output().shape)}"
    return None if good and view.output().shape == expected else fault


def cells_exist(view: OperatorView) -> str | None:
    """Constant indices lie inside the axis."""
    data, indices = (view.input(position) for position in _operands(view))
    size = data.shape[_axes(view)[0]]
    if indices.data is None or (indices.data.min() >= 0 and indices.data.max() < size):
        return None
    return f"indices from {indices.data.min()} to {indices.data.max()} of {size} cells"


def _gathered(view: OperatorView, data: Array, indices: Array) -> Array:
    axis, batch = _axes(view)
    chosen = np.clip(indices, 0, data.shape[axis] - 1)
    pairs = zip(data.reshape(-1, *data.shape[batch:]), chosen.reshape(-1, *chosen.shape[batch:]), strict=True)
    return np.stack([cells.take(these, axis - batch) for cells, these in pairs]).reshape(view.output().shape)


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    data, indices = (inputs[position] for position in _operands(view))
    assert data is not None and indices is not None
    return [_gathered(view, data, indices)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    at, by = _operands(view)
    data, indices = view.input(at), view.input(by)
    if indices.data is not None:
        return lower_cells(view, isa, [_gathered(view, numbered(data.shape), indices.data)], at)
    axis, batch = _axes(view)
    row = prod(data.shape[axis + 1 :]) * data.dtype.bytes
    rows = Rows(
        batches=prod(data.shape[:batch]),
        outer=prod(data.shape[batch:axis]),
        outer_step=data.shape[axis] * row,
        count=prod(indices.shape[batch:]),
        row=row,
        axes=(Index(data.shape[axis] - 1, row),),
    )
    return Lowered((gather(isa, operand(view, at), operand(view, by), rows, indices.dtype.bytes),))


def _definition(name: str, parse: Any, at: int, by: int) -> OperatorDefinition:
    constraints = (
        inputs_between(2, 2),
        of_type(at),
        quantized_as(at),
        dtypes(by, DType.INT32, DType.INT64),
        gathered_shape,
        moderate_size,
        cells_exist,
    )
    return OperatorDefinition(name, parse, constraints, reference, lower)


DEFINITIONS = (_definition("GATHER", parse, 0, 1), _definition("EMBEDDING_LOOKUP", parse_lookup, 1, 0))
