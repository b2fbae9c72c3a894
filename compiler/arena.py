# SPDX-License-Identifier: Apache-2.0
"""The arena plan: buffers with lifetimes become offsets; an independent checker and the lower bound go with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

ALIGNMENT = 16
"""Every buffer starts on a multiple of this, so that vector loads and double-word loads never fault."""


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
class ArenaPlan:
    """Offsets in bytes, in the order of the buffers; `lower_bound` is the largest sum of live buffers at any time."""

    buffers: tuple[Buffer, ...]
    offsets: tuple[int, ...]
    bytes: int
    lower_bound: int


def plan_arena(buffers: Sequence[Buffer], attempts: int = 2000) -> ArenaPlan:
    """Places buffers so that none that live at once overlap, trying orders until the lower bound is met.

    Deterministic: the random orders come from a fixed seed. The plan is verified before it is returned.
    """
    bound = lower_bound(buffers)
    best: tuple[int, list[int]] | None = None
    for order in _orders(buffers, attempts):
        offsets = _place(buffers, order)
        size = max((o + b.bytes for o, b in zip(offsets, buffers, strict=True)), default=0)
        if best is None or size < best[0]:
            best = size, offsets
        if best[0] <= bound:
            break
    assert best is not None
    plan = ArenaPlan(tuple(buffers), tuple(best[1]), _aligned(best[0]), bound)
    check_plan(plan)
    return plan


def lower_bound(buffers: Sequence[Buffer]) -> int:
    """The largest sum, over all dispatches, of the aligned sizes of the buffers alive there; no plan can be smaller."""
    moments = sorted({b.first for b in buffers})
    return max((sum(_aligned(b.bytes) for b in buffers if b.first <= t <= b.last) for t in moments), default=0)


def check_plan(plan: ArenaPlan) -> None:
    """Checks a plan by rastering it over time, independently of how it was made; raises ValueError on a clash."""
    for buffer, offset in zip(plan.buffers, plan.offsets, strict=True):
        if offset < 0 or offset % ALIGNMENT or offset + buffer.bytes > plan.bytes:
            raise ValueError(
                f"buffer {buffer.name} at {offset} is misaligned or outside the arena of {plan.bytes} bytes"
            )
    placed = list(zip(plan.buffers, plan.offsets, strict=True))
    for moment in range(max((b.last for b in plan.buffers), default=-1) + 1):
        alive = sorted((o, o + b.bytes, b.name) for b, o in placed if b.first <= moment <= b.last and b.bytes)
        for (_, end, name), (start, _, following) in pairwise(alive):
            if start < end:
                raise ValueError(f"buffers {name} and {following} overlap at dispatch {moment}")


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _orders(buffers: Sequence[Buffer], attempts: int) -> Iterator[list[int]]:
    indices = list(range(len(buffers)))
    keys: tuple[Callable[[int], tuple[int, ...]], ...] = (
        lambda i: (-buffers[i].bytes, buffers[i].first),
        lambda i: (-buffers[i].bytes * (buffers[i].last - buffers[i].first + 1), buffers[i].first),
        lambda i: (buffers[i].first, -buffers[i].bytes),
        lambda i: (-(buffers[i].last - buffers[i].first), -buffers[i].bytes),
    )
    for key in keys:
        yield sorted(indices, key=key)
    random = Random(0)
    for _ in range(attempts if len(buffers) > 2 else 0):
        yield sorted(indices, key=lambda i: -buffers[i].bytes * (0.5 + random.random()))


def _place(buffers: Sequence[Buffer], order: Sequence[int]) -> list[int]:
    """Each buffer in turn goes to the lowest gap between those placed before that live at the same time."""
    offsets = [0] * len(buffers)
    placed: list[int] = []
    for i in order:
        taken = sorted(
            (offsets[j], _aligned(offsets[j] + buffers[j].bytes)) for j in placed if buffers[i].meets(buffers[j])
        )
        at = 0
        for start, end in taken:
            if at + buffers[i].bytes <= start:
                break
            at = max(at, end)
        offsets[i] = at
        placed.append(i)
    return offsets
