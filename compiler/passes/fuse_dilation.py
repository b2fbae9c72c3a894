# SPDX-License-Identifier: Apache-2.0
"""Fusion of SPACE_TO_BATCH_ND, a convolution and BATCH_TO_SPACE_ND into the dilated convolution that they stand for.

Blocks are padded with the zero point, and so are convolutions, hence the bytes are the same. The shapes between the
three, which some converters leave open, do not matter.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import ABSENT, Graph, Operator
from compiler.kernels.portable.windows import every_window_sees_input
from compiler.ops import conv_2d, depthwise_conv_2d
from compiler.ops.definition import OperatorView
from compiler.ops.geometry import ExplicitPadding, Padding
from compiler.ops.space_to_batch_nd import blocks, margins, sound_blocks, whole_blocks
from compiler.passes.rewrite import only_reader, with_operators
from compiler.support import unsupported

_SLIDES = {"CONV_2D": conv_2d.slide, "DEPTHWISE_CONV_2D": depthwise_conv_2d.slide}


def fuse_dilation(graph: Graph) -> Graph:
    """Makes a dilated convolution of each three operators that compute one."""
    changed: dict[int, Operator | None] = {}
    for position, operator in enumerate(graph.operators):
        chain = _chain(graph, operator)
        fused = chain and _fused(graph, *chain)
        if chain and fused:
            changed |= {position: None, graph.operators.index(chain[1]): fused, graph.operators.index(chain[2]): None}
    return with_operators(graph, changed)


def _chain(graph: Graph, operator: Operator) -> tuple[Operator, Operator, Operator] | None:
    """The three operators, from the first."""
    if operator.op != "SPACE_TO_BATCH_ND":
        return None
    convolution = only_reader(graph, operator.outputs[0])
    if convolution is None or convolution.op not in _SLIDES or convolution.inputs[0] != operator.outputs[0]:
        return None
    last = only_reader(graph, convolution.outputs[0])
    is_chain = last is not None and last.op == "BATCH_TO_SPACE_ND" and last.inputs[0] == convolution.outputs[0]
    return (operator, convolution, last) if last is not None and is_chain else None


def _fused(graph: Graph, cut: Operator, convolution: Operator, join: Operator) -> Operator | None:
    """The convolution with the blocks as dilation, from before `cut` to behind `join`; None where it is none."""
    before, after = OperatorView(graph, cut), OperatorView(graph, join)
    for view in (before, after):
        known = len(view.inputs) == 3 and all(t is not None and t.is_constant for t in view.inputs[1:])
        if not known or len(view.input().shape) != 4 or len(blocks(view)) != 2 or sound_blocks(view) is not None:
            return None
        if view.input().quantization != view.output().quantization or view.input().dtype is not view.output().dtype:
            return None
    old = convolution.attributes
    steps = (old.stride_height, old.stride_width, old.dilation_height, old.dilation_width)
    if blocks(before) != blocks(after) or whole_blocks(before) or old.padding is not Padding.VALID or set(steps) != {1}:
        return None
    (top, bottom), (left, right) = (
        [padded - cropped for padded, cropped in zip(*pairs, strict=True)]
        for pairs in zip(margins(before), margins(after), strict=True)
    )
    if min(top, bottom, left, right) < 0:
        return None
    height, width = blocks(before)
    attributes = replace(
        old,
        padding=ExplicitPadding(top, bottom, left, right),
        dilation_height=height,
        dilation_width=width,
    )
    inputs = (cut.inputs[0], *convolution.inputs[1:])
    fused = replace(convolution, inputs=inputs, outputs=join.outputs, attributes=attributes)
    if ABSENT in inputs[:2] or unsupported(graph, fused):
        return None
    view = OperatorView(graph, fused)
    window = _SLIDES[fused.op](view).window(view.input(), view.output())
    return fused if every_window_sees_input(window) else None
