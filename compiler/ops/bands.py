# SPDX-License-Identifier: Apache-2.0
"""Bands: an operator that computes only some rows of its output, as an operator on fewer rows of its inputs.

Tensors are [1, height, width, channels]; a band is a range of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from compiler.graph import Tensor
from compiler.ops.definition import Band, Bands, OperatorView
from compiler.ops.geometry import ExplicitPadding, Slide
from compiler.ops.hybrid import is_hybrid


def sliding(slide: Callable[[OperatorView], Slide]) -> Bands:
    """Bands of an operator whose window moves over input 0 and whose attributes have a `padding`."""

    def band(view: OperatorView, rows: range) -> Band | None:
        if len(view.inputs) > 1 and is_hybrid(view):
            return None  # It scales its input by the range of the whole image.
        w = slide(view).window(view.input(), view.output())
        start = rows.start * w.stride_height - w.pad_top
        reach = (w.kernel_height - 1) * w.dilation_height + 1
        stop = (rows.stop - 1) * w.stride_height - w.pad_top + reach
        top, bottom = max(-start, 0), max(stop - w.input_height, 0)
        reads = range(start + top, stop - bottom)
        if not reads:
            return None
        padding = ExplicitPadding(top, bottom, w.pad_left, w.pad_right)
        return Band(replace(view.attributes, padding=padding), {0: reads})

    return band


def elementwise(view: OperatorView, rows: range) -> Band | None:
    """Bands of an operator that computes each element from those at its place; constants are the same in all rows."""
    shape, reads = view.output().shape, {}
    for position, tensor in enumerate(view.inputs):
        if tensor is None or (tensor.is_constant and (len(tensor.shape) < 3 or tensor.shape[-3] == 1)):
            continue
        if tensor.is_constant or tensor.shape != shape:
            return None
        reads[position] = rows
    return Band(view.attributes, reads)


def same_rows(view: OperatorView, rows: range) -> Band | None:
    """Bands of an operator that moves elements within rows."""
    parts = {position: tensor for position, tensor in enumerate(view.inputs) if tensor is not None}
    if any(tensor.is_constant and len(tensor.shape) > 2 for tensor in parts.values()):
        return None
    return Band(view.attributes, {position: rows for position, tensor in parts.items() if not tensor.is_constant})


def on_band(view: OperatorView, band: Band, rows: range) -> OperatorView:
    """The operator that computes the band `rows` of the output."""
    operator, graph = replace(view.operator, attributes=band.attributes), view.graph
    graph = graph.with_tensors(_cut(view.output(), rows))
    # An input that is read at two positions has the same rows at both: the operator is elementwise.
    graph = graph.with_tensors(*(_cut(view.input(position), read) for position, read in band.reads.items()))
    return OperatorView(graph, operator)


def _cut(tensor: Tensor, rows: range) -> Tensor:
    batches, _, width, channels = tensor.shape
    return replace(tensor, shape=(batches, len(rows), width, channels))
