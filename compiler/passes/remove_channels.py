# SPDX-License-Identifier: Apache-2.0
"""Removal of channels that need not be computed, proven from the weights.

A channel goes where its value is the same for every input of the model (it becomes part of its readers' biases) or
where nothing that is needed reads it (weights of zero, or readers that go themselves). What goes is the greatest set
that is consistent: the pass assumes the most, then takes back what operators tie to a channel that stays, until nothing
changes. The model's inputs and outputs, and tensors of operators that do not work channel by channel, keep all.
A padded convolution sees a constant other than the zero point less often at the border: such a channel stays unless its
part in every output that is needed is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from compiler.graph import Graph, Operator
from compiler.ops import layers
from compiler.passes.channel_links import Link, Mask, Masks, link
from compiler.passes.intervals import Constants, intervals
from compiler.passes.slice_channels import Cut, slice_channels
from compiler.support import unsupported

GRANULE = 4
"""Kernels take four channels at a time. A width that is no multiple costs kernels of its own, about 3 KB of code in
mlperf_vww_mobilenet_int8 on Cortex-M4, and saves no instructions."""
MOST_FILLED = 8
"""At most one channel in so many is added to get such a width."""


def remove_channels(graph: Graph) -> Graph:
    """The graph without the channels that need not be computed. A graph with unsupported operators stays as it is."""
    if any(unsupported(graph, operator) for operator in graph.operators):
        return graph
    links = {operator.outputs[0]: found for operator in graph.operators if (found := link(graph, operator))}
    if not links:
        return graph
    constants = {
        t: found.constants() if t in _free_tensors(graph, links) else _none(graph, t)
        for t, found in intervals(graph).items()
    }
    keep = _kept(graph, links, constants)
    held = _rounded(links, keep)
    if all(mask.all() for mask in held.values()):
        return graph
    return slice_channels(graph, links, {t: Cut(keep[t], held[t]) for t in keep}, constants)


def _kept(graph: Graph, links: Mapping[int, Link], constants: Mapping[int, Constants]) -> Masks:
    """Which channels of each tensor have to stay, by tensor."""
    free = _free_tensors(graph, links)
    fewest = {op.outputs[0]: _fewest(graph, op) for op in graph.operators if op.outputs and op.outputs[0] in free}
    varying = {t: ~found.mask for t, found in constants.items()}
    used = _used(graph, links, free, varying)
    keep = {t: varying[t] & used[t] for t in constants}
    while True:
        before = _count(keep)
        for operator in graph.operators:
            connection = links.get(operator.outputs[0]) if operator.outputs else None
            if connection is None:
                continue
            for tensor, mask in connection.tied(keep).items():
                keep[tensor] = keep[tensor] | mask
            source, needed = operator.inputs[0], used[operator.outputs[0]] & keep[operator.outputs[0]]
            removed = replace(constants[source], mask=constants[source].mask & ~keep[source])
            border = connection.unfoldable(needed, removed)
            if border is not None:
                keep[source] = keep[source] | border
        for tensor in free:
            keep[tensor] = _at_least(keep[tensor], fewest[tensor])
        used = _used(graph, links, free, keep)
        keep = {t: keep[t] | (used[t] & varying[t]) for t in keep}
        if _count(keep) == before:
            return keep


def _rounded(links: Mapping[int, Link], keep: Masks) -> Masks:
    """The channels that get a place: those kept, and others up to a multiple of GRANULE where few are missing."""
    held = dict(keep)
    for tensor in sorted(links):
        count = int(held[tensor].sum())
        if -count % GRANULE <= count // MOST_FILLED:
            held[tensor] = _at_least(held[tensor], count + -count % GRANULE)
            _tie(links, held)
    return held


def _tie(links: Mapping[int, Link], held: dict[int, Mask]) -> None:
    """Sets what operators tie to channels that are set."""
    before: dict[int, int] = {}
    while before != _count(held):
        before = _count(held)
        for connection in links.values():
            for tensor, mask in connection.tied(held).items():
                held[tensor] = held[tensor] | mask


def _count(keep: Masks) -> dict[int, int]:
    return {tensor: int(mask.sum()) for tensor, mask in keep.items()}


def _none(graph: Graph, tensor: int) -> Constants:
    channels = (graph.tensor(tensor).shape or (1,))[-1]
    return Constants(np.zeros(channels, np.bool_), np.zeros(channels, np.int64))


def _free_tensors(graph: Graph, links: Mapping[int, Link]) -> set[int]:
    """Tensors whose producer and readers can all do without channels."""
    free = set(links) - set(graph.outputs)
    for operator in graph.operators:
        if not set(operator.outputs) & set(links):
            free -= set(operator.inputs)
    return free


def _used(graph: Graph, links: Mapping[int, Link], free: set[int], keep: Masks) -> dict[int, Mask]:
    """The channels of each tensor that outputs of the model depend on, where channels that are not kept need none."""
    used = {t: np.full(len(mask), t not in free) for t, mask in keep.items()}
    for operator in reversed(graph.operators):
        connection = links.get(operator.outputs[0]) if operator.outputs else None
        if connection is not None:
            output = operator.outputs[0]
            for tensor, mask in connection.read(used[output] & keep[output]).items():
                used[tensor] = used[tensor] | mask
    return used


def _fewest(graph: Graph, producer: Operator) -> int:
    """One channel stays; two where a single scale of weights would be taken for that of the whole tensor, which
    FULLY_CONNECTED rescales differently."""
    if producer.op != "FULLY_CONNECTED":
        return 1
    return min(2, len(graph.tensor(producer.inputs[layers.FILTER_POSITION]).quant.scales))


def _at_least(mask: Mask, count: int) -> Mask:
    """The mask with its first channels set besides, until `count` are."""
    missing = np.flatnonzero(~mask)[: max(0, count - int(mask.sum()))]
    wider = mask.copy()
    wider[missing] = True
    return wider
