# SPDX-License-Identifier: Apache-2.0
"""Proves that no arena plan is smaller, by branch and bound over which of two buffers comes first.

Distances by whole multiples are taken as any distance: a proof holds for them too, but is not always found.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.placement import Neighbours

NODES = 400
DEPTH = 150
"""Cases that are looked at; beyond that nothing is proven."""


@dataclass(frozen=True)
class _Step:
    """The offset of `upper` is at least that of `lower` plus `distance`."""

    lower: int
    upper: int
    distance: int


Choice = tuple[_Step, _Step]
"""One of the two must hold."""


def is_impossible(graph: Neighbours, size: int, nodes: int = NODES) -> bool:
    """Whether it is proven that no plan has at most `size` bytes."""
    return _Proof(nodes).fails([0] * len(graph.sizes), [size - s for s in graph.sizes], [], _choices(graph), 0)


def _choices(graph: Neighbours) -> list[Choice]:
    choices = []
    for i, gaps in enumerate(graph.gaps):
        for j, gap in gaps.items():
            low, high = gap.low, gap.high
            if gap.step:
                # Allowed within least..most as well, which reaches one end of the gap.
                low, high = (low, max(gap.least, low)) if gap.most >= high else (min(gap.most, high), high)
            if i < j and low < high:
                choices.append((_Step(i, j, -low), _Step(j, i, high)))
    return choices


class _Proof:
    def __init__(self, nodes: int) -> None:
        self.nodes = nodes

    def fails(self, least: list[int], most: list[int], steps: list[_Step], choices: list[Choice], depth: int) -> bool:
        """Whether no offsets within `least`..`most` obey the steps and the choices. False where nodes run out, or too
        many choices stand one behind the other."""
        self.nodes -= 1
        if self.nodes < 0 or depth > DEPTH:
            return False
        steps, open_choices = list(steps), choices
        while True:
            if not _narrow(least, most, steps):
                return True
            left = []
            for choice in open_choices:
                possible = [s for s in choice if least[s.lower] + s.distance <= most[s.upper]]
                if not possible:
                    return True
                if len(possible) == 1:
                    steps.append(possible[0])
                elif all(most[s.lower] + s.distance > least[s.upper] for s in choice):
                    left.append(choice)
            if len(left) == len(open_choices):
                break
            open_choices = left
        if not open_choices:
            return False
        chosen = max(open_choices, key=lambda c: c[0].distance + c[1].distance)
        rest = [c for c in open_choices if c is not chosen]
        return all(self.fails(list(least), list(most), [*steps, step], rest, depth + 1) for step in chosen)


def _narrow(least: list[int], most: list[int], steps: list[_Step]) -> bool:
    """Moves the limits until they agree with the steps; False where that is impossible."""
    moved = True
    while moved:
        moved = False
        for s in steps:
            if least[s.lower] + s.distance > least[s.upper]:
                least[s.upper], moved = least[s.lower] + s.distance, True
            if most[s.upper] - s.distance < most[s.lower]:
                most[s.lower], moved = most[s.upper] - s.distance, True
            if least[s.upper] > most[s.upper] or least[s.lower] > most[s.lower]:
                return False
    return True
