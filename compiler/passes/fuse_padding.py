# SPDX-License-Identifier: Apache-2.0
"""Fusion of a PAD of height and width into the convolutions that read it. A convolution pads with its input's zero
point, and so does PAD, hence the bytes are the same."""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, Operator
from compiler.kernels.portable.windows import every_window_sees_input
from compiler.ops import conv_2d, depthwise_conv_2d
from compiler.ops.definition import OperatorView
from compiler.ops.geometry import ExplicitPadding
from compiler.passes.rewrite import reading_instead, with_operators
from compiler.support import unsupported

_SLIDES = {"CONV_2D": conv_2d.slide, "DEPTHWISE_CONV_2D": depthwise_conv_2d.slide}


def fuse_padding(graph: Graph) -> Graph:
    """Makes convolutions read the input of a PAD before them; the PAD stays until nobody reads it."""
    changed: dict[int, Operator | None] = {}
    pads = {op.outputs[0]: op for op in graph.operators if op.op == "PAD" and op.outputs}
    for position, operator in enumerate(graph.operators):
        pad = pads.get(operator.inputs[0]) if operator.op in _SLIDES and operator.inputs else None
        fused = pad and _fused(graph, pad, operator)
        if fused:
            changed[position] = fused
    return with_operators(graph, changed)


def _fused(graph: Graph, pad: Operator, reader: Operator) -> Operator | None:
    """The convolution with the padding of `pad` added to its own; None where the bytes could differ."""
    if unsupported(graph, pad) or unsupported(graph, reader):
        return None
    paddings = graph.tensor(pad.inputs[1]).constant.astype(int).tolist()
    if len(paddings) != 4 or any(paddings[0]) or any(paddings[3]):
        return None
    view = OperatorView(graph, reader)
    own = _SLIDES[reader.op](view).window(view.input(), view.output())
    (top, bottom), (left, right) = paddings[1:3]
    explicit = ExplicitPadding(top + own.pad_top, bottom + own.pad_bottom, left + own.pad_left, right + own.pad_right)
    fused = replace(
        reading_instead(reader, pad.outputs[0], pad.inputs[0]), attributes=replace(reader.attributes, padding=explicit)
    )
    view = OperatorView(graph, fused)
    if unsupported(graph, fused) or not every_window_sees_input(
        _SLIDES[fused.op](view).window(view.input(), view.output())
    ):
        return None
    return fused
