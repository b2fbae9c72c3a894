# SPDX-License-Identifier: Apache-2.0
"""The search for small arena plans: buffers are put one after the other at the lowest place that suits those before;
orders are tried by rules, at random, and by changing the best one found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd
from random import Random

ALIGNMENT = 16
"""Every buffer starts on a multiple of this, so that vector loads and double-word loads never fault."""


def aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class Gap:
    """Where a buffer must not be, in bytes from another's offset: between `low` and `high`, both excluded, unless by
    `remainder` modulo `step` (0: not even there) where that is at least `least` and at most `most`."""

    low: int
    high: int
    step: int = 0
    remainder: int = 0
    least: int = 0
    most: int = 0

    def beyond(self, at: int) -> int:
        """The lowest allowed distance that is not below `at`."""
        if not self.low < at < self.high:
            return at
        if self.step:
            candidate = at + (self.remainder - at) % self.step
            if candidate < self.least:
                candidate = self.least + (self.remainder - self.least) % self.step
            if candidate <= min(self.most, self.high):
                return candidate
        return self.high


@dataclass
class Neighbours:
    """Buffers by number: sizes, lifetimes, and the gaps between those that live at once. The `walls` are offsets: no
    buffer may lie on both sides of one."""

    sizes: Sequence[int]
    first: Sequence[int]
    last: Sequence[int]
    walls: Sequence[int] = ()
    gaps: list[dict[int, Gap]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gaps = [{} for _ in self.sizes]

    def connect(self, i: int, j: int) -> None:
        """The buffers must be disjoint."""
        for one, other in ((i, j), (j, i)):
            self.gaps[one][other] = Gap(-aligned(self.sizes[one]), aligned(self.sizes[other]))

    def share(self, output: int, source: int, distance: int, multiple: int, remainder: int) -> None:
        """Softens `connect`: the output may be at least `distance` bytes ahead, by `remainder` modulo `multiple`."""
        if source not in self.gaps[output]:
            return
        distance = aligned(distance)
        ahead, behind = aligned(self.sizes[output]), aligned(self.sizes[source])
        if distance >= ahead:
            return
        if multiple == 1 and remainder % ALIGNMENT == 0:
            self.gaps[source][output] = Gap(-behind, max(distance, -behind))
            self.gaps[output][source] = Gap(min(-distance, behind), behind)
            return
        found = _meeting(multiple, remainder)
        if found is None:
            return
        first, step = found
        self.gaps[source][output] = Gap(-behind, ahead, step, first, distance, ahead)
        self.gaps[output][source] = Gap(-ahead, behind, step, -first % step, -ahead, -distance)


def _meeting(multiple: int, remainder: int) -> tuple[int, int] | None:
    """(first, step) of the multiples of ALIGNMENT that leave `remainder` modulo `multiple`; None if there are none."""
    if remainder % gcd(multiple, ALIGNMENT):
        return None
    step = multiple * ALIGNMENT // gcd(multiple, ALIGNMENT)
    return next(at for at in range(0, step, ALIGNMENT) if (at - remainder) % multiple == 0), step


def search(graph: Neighbours, bound: int, attempts: int) -> list[int]:
    """Offsets of a small plan: the first whose size is not above `bound`, else the best of the orders tried."""
    best: tuple[int, list[int], list[int]] | None = None
    for order in _rules(graph):
        offsets = place(graph, order)
        size = size_of(graph, offsets)
        if best is None or size < best[0]:
            best = size, order, offsets
        if size <= bound:
            return offsets
    assert best is not None
    random = Random(0)
    for attempt in range(attempts if len(graph.sizes) > 2 else 0):
        order = _changed(best[1], random) if attempt % 4 else _shuffled(graph, random)
        offsets = place(graph, order)
        size = size_of(graph, offsets)
        if size <= best[0]:
            best = size, order, offsets
        if size <= bound:
            break
    return best[2]


def place(graph: Neighbours, order: Sequence[int]) -> list[int]:
    """Each buffer in turn goes to the lowest offset that suits those placed before."""
    offsets = [-1] * len(graph.sizes)
    for i in order:
        placed = [(offsets[j], gap) for j, gap in graph.gaps[i].items() if offsets[j] >= 0]
        at, settled = 0, False
        while not settled:
            settled = True
            for base, gap in placed:
                beyond = base + gap.beyond(at - base)
                if beyond != at:
                    at, settled = beyond, False
            for wall in graph.walls:
                if at < wall < at + graph.sizes[i]:
                    at, settled = wall, False
        offsets[i] = at
    return offsets


def size_of(graph: Neighbours, offsets: Sequence[int]) -> int:
    return aligned(max((o + s for o, s in zip(offsets, graph.sizes, strict=True)), default=0))


def _rules(graph: Neighbours) -> Iterator[list[int]]:
    sizes, first, last = graph.sizes, graph.first, graph.last
    indices = range(len(sizes))
    yield sorted(indices, key=lambda i: (-sizes[i], first[i]))
    yield sorted(indices, key=lambda i: (-sizes[i], -first[i]))
    yield sorted(indices, key=lambda i: (-sizes[i] * (last[i] - first[i] + 1), first[i]))
    yield sorted(indices, key=lambda i: (first[i], -sizes[i]))
    yield sorted(indices, key=lambda i: (-last[i], -sizes[i]))
    yield sorted(indices, key=lambda i: (first[i] - last[i], -sizes[i]))
    yield sorted(indices, key=lambda i: (first[i] - last[i], -first[i], -sizes[i]))


def _shuffled(graph: Neighbours, random: Random) -> list[int]:
    return sorted(range(len(graph.sizes)), key=lambda i: -graph.sizes[i] * (0.5 + random.random()))


def _changed(order: Sequence[int], random: Random) -> list[int]:
    """One buffer moved to another place in the order, or two exchanged."""
    changed = list(order)
    i, j = random.randrange(len(order)), random.randrange(len(order))
    if random.random() < 0.5:
        changed.insert(j, changed.pop(i))
    else:
        changed[i], changed[j] = changed[j], changed[i]
    return changed
