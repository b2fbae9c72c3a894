# SPDX-License-Identifier: Apache-2.0
"""Fuses operators around the arena's peak: what a chain of layers hands on is kept a few rows at a time.

The dispatch that takes the most memory is joined with its neighbours as long as that lowers what a dispatch takes at
least. Of the schedules on the way, each with the kernels that suit some arena, the smallest arena is taken that costs
few instructions, or any that the board's memory demands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from compiler.chains import Chain, Source
from compiler.choice import choose, needs_of
from compiler.graph import ABSENT, Graph, Operator
from compiler.isa import Isa
from compiler.ops import operators
from compiler.ops.definition import OperatorView
from compiler.order import ordered, peak
from compiler.pricing import priced
from compiler.schedule import Dispatch, Region, Schedule, build_schedule
from compiler.settings import Optimize, Settings
from compiler.stripes import Lowerings, lower_chain, work

LONGEST = 4
"""Operators that are tried in a chain."""
HEIGHTS = (1, 2, 4, 8)
"""Rows of a stripe that are tried."""
COSTS = {Optimize.SPEED: 0.01, Optimize.BALANCED: 0.025}
"""What fusion may cost, as a part of all instructions, where memory does not demand it; with SIZE it has to."""
GAIN = 0.05
"""The part of the arena that is worth fusing."""


def scheduled(graph: Graph, isa: Isa, settings: Settings, model_bytes: int) -> Schedule:
    """The schedule of a graph: kernels chosen, chains fused, in order."""
    unpriced = build_schedule(graph, isa)
    whole, *steps = (priced(s, settings.costs) for s in (unpriced, *fused(unpriced, isa)))
    best = ordered(choose(whole, settings, model_bytes))
    room = settings.arena_bytes
    if room is not None and peak(best) > room:
        tight = [choose(s, settings, model_bytes, max([room, *least_needs(s)])) for s in (whole, *steps)]
        best = min(tight, key=lambda s: (max(peak(s), room), _work(s)))
    cost = COSTS.get(settings.optimize)
    if cost is not None:
        limit, most = (1 + cost) * _work(best), (1 - GAIN) * peak(best)
        smaller = (_smallest(s, settings, model_bytes, limit, most) for s in steps)
        best = min((s for s in smaller if s is not None), key=peak, default=best)
    return ordered(best)


def _smallest(schedule: Schedule, settings: Settings, model_bytes: int, limit: float, most: float) -> Schedule | None:
    """The schedule for the smallest arena of `most` bytes at most that takes `limit` instructions at most."""
    needs = needs_of(schedule)
    least = max(min(each) for each in needs)
    for arena in sorted({n for each in needs for n in each if least <= n <= most}):
        one = choose(schedule, settings, model_bytes, arena)
        if _work(one) <= limit:
            return one
    return None


def fused(schedule: Schedule, isa: Isa) -> Iterator[Schedule]:
    """Schedules with more and more chains fused, as long as that lowers the peak; dispatches have alternatives."""
    lowerings = Lowerings(isa)
    while needs := least_needs(schedule):
        found = []
        for dispatches in _around(needs.index(max(needs)), len(needs)):
            # Chains are compared by their lowest stripes alone: lowering takes long.
            lowest = (_joined(schedule, dispatches, (height,), lowerings) for height in HEIGHTS)
            one = next((one for one in lowest if one is not None), None)
            if one is not None:
                found.append((sorted(least_needs(one), reverse=True), dispatches))
        best, dispatches = min(found, key=lambda pair: pair[0], default=(None, range(0)))
        joined = _joined(schedule, dispatches, HEIGHTS, lowerings)
        if best is None or best >= sorted(needs, reverse=True) or joined is None:
            return
        schedule = joined
        yield schedule


def least_needs(schedule: Schedule) -> list[int]:
    """The memory that each dispatch takes at least."""
    return [min(each) for each in needs_of(schedule)]


def _work(schedule: Schedule) -> int:
    return sum(work(d.lowered) for d in schedule.dispatches)


def _around(peak: int, count: int) -> Iterator[range]:
    """The dispatches, of so many, that may be joined with the one at the peak."""
    for length in range(2, LONGEST + 1):
        for first in range(max(peak - length + 1, 0), min(peak, count - length) + 1):
            yield range(first, first + length)


def _joined(schedule: Schedule, joined: range, heights: Sequence[int], lowerings: Lowerings) -> Schedule | None:
    """The schedule with these dispatches made one, in stripes of any of the heights; None where they are no chain."""
    dispatches = schedule.dispatches[joined.start : joined.stop]
    graph = schedule.graph
    if not dispatches or not all(_has_bands(graph, d) for d in dispatches) or not _is_closed(schedule, dispatches):
        return None
    chain, reads = _chain(schedule, [operator for d in dispatches for operator in d.operators])
    pairs = [(first, height) for height in heights if height < chain.height for first in (height, height - 1) if first]
    lowered = lower_chain(chain, pairs, lowerings)
    if lowered is None:
        return None
    one = Dispatch(0, tuple(v.operator for v in chain.views), lowered, reads, dispatches[-1].writes)
    every = [*schedule.dispatches[: joined.start], one, *schedule.dispatches[joined.stop :]]
    sizes = list(schedule.buffer_bytes)
    for d in dispatches[:-1]:
        sizes[d.writes[0].buffer] = 0
    return replace(
        schedule,
        dispatches=tuple(replace(d, index=index) for index, d in enumerate(every)),
        buffer_bytes=tuple(sizes),
    )


def _has_bands(graph: Graph, dispatch: Dispatch) -> bool:
    """Whether the dispatch can be computed by rows: bands are of images, not of scalars, vectors and matrices."""
    return len(dispatch.writes) == 1 and all(
        operators()[o.op].bands is not None and len(graph.tensor(o.outputs[0]).shape) == 4 for o in dispatch.operators
    )


def _is_closed(schedule: Schedule, dispatches: Sequence[Dispatch]) -> bool:
    """Whether nobody else has to do with any output but the last."""
    kept = {*schedule.state.values(), *(schedule.region_of[t].buffer for t in schedule.graph.outputs)}
    inside = {d.index for d in dispatches}
    for output in (o.outputs[0] for d in dispatches for o in d.operators[-1:] if d is not dispatches[-1]):
        buffer = schedule.region_of[output].buffer
        aliases = [tensor for tensor, region in schedule.region_of.items() if region.buffer == buffer]
        users = {d.index for d in schedule.dispatches if buffer in {r.buffer for r in (*d.reads, *d.writes) if r}}
        if buffer in kept or aliases != [output] or len(users) < 2 or not users <= inside:
            return False
    return True


def _chain(schedule: Schedule, chained: Sequence[Operator]) -> tuple[Chain, tuple[Region, ...]]:
    """The chain of these operators, and the regions of what it reads from outside."""
    links: dict[int, int] = {}
    outside: dict[int, int] = {}
    sources = []
    for number, operator in enumerate(chained):
        own: list[Source | None] = []
        for tensor in operator.inputs:
            if tensor in links:
                own.append(Source(link=links[tensor]))
            elif tensor == ABSENT or schedule.graph.tensor(tensor).is_constant:
                own.append(None)
            else:
                own.append(Source(operand=outside.setdefault(tensor, len(outside))))
        sources.append(tuple(own))
        links[operator.outputs[0]] = number
    views = tuple(OperatorView(schedule.graph, operator) for operator in chained)
    return Chain(views, tuple(sources)), tuple(schedule.region_of[tensor] for tensor in outside)
