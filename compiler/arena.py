# SPDX-License-Identifier: Apache-2.0
"""The arena plan: buffers with lifetimes become offsets; an independent checker and the lower bound go with it.

Buffers that live at once are disjoint, but for sharings: an output may lie over an input that dies where the output is
born, at the distance that the kernel allows. An arena in several banks of memory is planned as one, with walls that no
buffer crosses; what a bank has left over is then taken out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from compiler.arena_proof import is_impossible
from compiler.placement import ALIGNMENT, Neighbours, aligned, search, size_of

__all__ = ["ALIGNMENT", "ArenaPlan", "Buffer", "Sharing", "check_plan", "lower_bound", "needed", "plan_arena"]


@dataclass(frozen=True)
class Buffer:
    """Memory that is needed from dispatch `first` to dispatch `last`, both included. Size in bytes."""

    name: str
    bytes: int
    first: int
    last: int

    def meets(self, other: Buffer) -> bool:
        """Whether both are alive at once."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Sharing:
    """The buffer `output` may lie over the buffer `input` (both by number) where the output's offset is at least
    `distance` bytes less than the input's, and `remainder` less by modulo `multiple`."""

    output: int
    input: int
    distance: int
    multiple: int = 1
    remainder: int = 0

    def allows(self, lead: int) -> bool:
        """Whether the output may be so many bytes ahead of the input."""
        return lead >= self.distance and (lead - self.remainder) % self.multiple == 0


@dataclass(frozen=True)
class ArenaPlan:
    """Offsets in bytes, in the order of the buffers; no plan can have fewer bytes than `lower_bound`. At each of the
    `walls` the next bank begins."""

    buffers: tuple[Buffer, ...]
    offsets: tuple[int, ...]
    bytes: int
    lower_bound: int
    sharings: tuple[Sharing, ...] = ()
    walls: tuple[int, ...] = ()


def plan_arena(
    buffers: Sequence[Buffer], sharings: Sequence[Sharing] = (), attempts: int = 2000, banks: Sequence[int] = ()
) -> ArenaPlan:
    """Places buffers so that none that live at once overlap unless by a sharing, trying orders until the lower bound
    is met. `banks`: what each bank holds at most, in bytes, but for the last, which takes what is left.

    Deterministic: the random orders come from a fixed seed. The plan is verified before it is returned.
    """
    sharings = [s for s in sharings if buffers[s.output].first == buffers[s.input].last]
    walls = list(accumulate(bank // ALIGNMENT * ALIGNMENT for bank in banks))
    bound, graph = lower_bound(buffers, sharings), _neighbours(buffers, sharings, walls)
    for tries in (attempts // 10, attempts):
        offsets = search(graph, bound, tries)
        size = size_of(graph, offsets)
        if size > bound and is_impossible(graph, size - ALIGNMENT):
            bound = size
        if size <= bound:
            break
    plan = _closed_up(ArenaPlan(tuple(buffers), tuple(offsets), size, bound, tuple(sharings), tuple(walls)))
    check_plan(plan)
    return plan


def _closed_up(plan: ArenaPlan) -> ArenaPlan:
    """The plan without what is unused at the end of each bank but the last."""
    limits, moved, walls = (0, *plan.walls), [0] * len(plan.offsets), []
    end = 0
    for start, limit in zip(limits, (*plan.walls, plan.bytes), strict=True):
        inside = [i for i, offset in enumerate(plan.offsets) if start <= offset < max(limit, start + 1)]
        for i in inside:
            moved[i] = plan.offsets[i] - start + end
        end += max((aligned(plan.offsets[i] + plan.buffers[i].bytes) - start for i in inside), default=0)
        walls.append(end)
    return replace(plan, offsets=tuple(moved), bytes=end, walls=tuple(walls[:-1]))


def lower_bound(buffers: Sequence[Buffer], sharings: Sequence[Sharing] = ()) -> int:
    """The most memory, over all dispatches, that the buffers alive there take however they are placed.

    Their sizes add up, less what an output can at most have in common with the inputs that it may lie over.
    """
    moments = sorted({b.first for b in buffers})
    return max((needed(buffers, sharings, t) for t in moments), default=0)


def needed(buffers: Sequence[Buffer], sharings: Sequence[Sharing], moment: int) -> int:
    """The least memory that the buffers alive at a dispatch take."""
    alive = {i for i, b in enumerate(buffers) if b.first <= moment <= b.last}
    total = sum(aligned(buffers[i].bytes) for i in alive)
    common: dict[int, int] = {}
    for s in sharings:
        if {s.output, s.input} <= alive:
            output, source = aligned(buffers[s.output].bytes), aligned(buffers[s.input].bytes)
            # Ahead by `lead` the two span max(output, lead + input) bytes, behind it no less than the larger one.
            span = max(output, source, min(s.distance, output) + source)
            common[s.output] = common.get(s.output, 0) + output + source - span
    return total - sum(min(shared, aligned(buffers[output].bytes)) for output, shared in common.items())


def check_plan(plan: ArenaPlan) -> None:
    """Checks a plan by rastering it over time, independently of how it was made; raises ValueError on a clash."""
    for buffer, offset in zip(plan.buffers, plan.offsets, strict=True):
        if offset < 0 or offset % ALIGNMENT or offset + buffer.bytes > plan.bytes:
            raise ValueError(
                f"buffer {buffer.name} at {offset} is misaligned or outside the arena of {plan.bytes} bytes"
            )
        if any(offset < wall < offset + buffer.bytes for wall in plan.walls):
            raise ValueError(f"buffer {buffer.name} at {offset} lies in two banks")
    placed = list(zip(plan.buffers, plan.offsets, strict=True))
    for moment in range(max((b.last for b in plan.buffers), default=-1) + 1):
        alive = sorted(
            (o, o + b.bytes, i) for i, (b, o) in enumerate(placed) if b.first <= moment <= b.last and b.bytes
        )
        for place, (_, end, one) in enumerate(alive):
            for start, _, other in alive[place + 1 :]:
                if start >= end:
                    break
                if not _allowed(plan, one, other, moment):
                    names = f"{plan.buffers[one].name} and {plan.buffers[other].name}"
                    raise ValueError(f"buffers {names} overlap at dispatch {moment}")


def _allowed(plan: ArenaPlan, one: int, other: int, moment: int) -> bool:
    """Whether two buffers that overlap at a dispatch may do so: one is born there from the other, which dies there."""
    return any(
        {s.output, s.input} == {one, other}
        and plan.buffers[s.output].first == moment == plan.buffers[s.input].last
        and s.allows(plan.offsets[s.input] - plan.offsets[s.output])
        for s in plan.sharings
    )


def _neighbours(buffers: Sequence[Buffer], sharings: Sequence[Sharing], walls: Sequence[int]) -> Neighbours:
    sizes = [b.bytes for b in buffers]
    graph = Neighbours(sizes, [b.first for b in buffers], [b.last for b in buffers], walls)
    for i, buffer in enumerate(buffers):
        for j, other in enumerate(buffers):
            if i < j and sizes[i] and sizes[j] and buffer.meets(other):
                graph.connect(i, j)
    for s in sharings:
        graph.share(s.output, s.input, s.distance, s.multiple, s.remainder)
    return graph
