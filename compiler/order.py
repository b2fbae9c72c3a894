# SPDX-License-Identifier: Apache-2.0
"""Orders dispatches for a small arena: of all orders that keep reads and writes apart, the least memory at the peak.

A beam search over sets of dispatches that have run: where branches are few it is complete.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.arena import Buffer, lower_bound, needed
from compiler.schedule import Dispatch, Schedule

WIDTH = 24
"""Sets that are followed at a time."""
MOST = 150
"""Dispatches beyond which the model's order stays."""


def ordered(schedule: Schedule) -> Schedule:
    """The schedule in the order of the smallest peak; in the model's where none has a smaller one."""
    if len(schedule.dispatches) > MOST:
        return schedule
    search = _Search(schedule)
    if search.is_chain or peak(schedule) <= search.least:
        return schedule
    order = search.best()
    dispatches = tuple(replace(schedule.dispatches[d], index=index) for index, d in enumerate(order))
    found = replace(schedule, dispatches=dispatches)
    return found if peak(found) < peak(schedule) else schedule


def peak(schedule: Schedule) -> int:
    """The memory that the buffers alive at some dispatch take at least."""
    return lower_bound(schedule.lifetimes(keep_inputs=False), schedule.sharings(keep_inputs=False))


@dataclass(frozen=True)
class _State:
    """Dispatches that have run, in order, and the most memory that they took. `ready` are those that may be next."""

    peak: int
    alive: int
    order: tuple[int, ...]
    ready: frozenset[int]


class _Search:
    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        outputs = (schedule.region_of[t].buffer for t in schedule.graph.outputs)
        self.kept = {*schedule.state.values(), *outputs}
        self.inputs = {schedule.region_of[t].buffer for t in schedule.graph.inputs}
        self.touched = [_buffers(d) for d in schedule.dispatches]
        count = len(schedule.dispatches)
        self.before = [{e for e in range(d) if self._conflict(e, d)} for d in range(count)]
        self.after: list[list[int]] = [[] for _ in range(count)]
        for d, earlier in enumerate(self.before):
            for e in earlier:
                self.after[e].append(d)
        self.users: dict[int, set[int]] = {}
        for d, buffers in enumerate(self.touched):
            for b in buffers:
                self.users.setdefault(b, set()).add(d)

    @property
    def is_chain(self) -> bool:
        """Whether each dispatch needs the one before it: there is one order."""
        return all(d - 1 in earlier for d, earlier in enumerate(self.before) if d)

    @property
    def least(self) -> int:
        """The most memory that a dispatch takes by itself: no order has a smaller peak."""
        return max(self._need(d, set(), set(range(len(self.before))))[0] for d in range(len(self.before)))

    def _conflict(self, earlier: int, later: int) -> bool:
        """Whether two dispatches touch a buffer that one of them writes."""
        one, other = self.schedule.dispatches[earlier], self.schedule.dispatches[later]
        written = {w.buffer for w in (*one.writes, *other.writes)} | set(self.schedule.state.values())
        return bool(self.touched[earlier] & self.touched[later] & written)

    def best(self) -> tuple[int, ...]:
        count = len(self.before)
        first = frozenset(d for d in range(count) if not self.before[d])
        states = [_State(0, 0, (), first)]
        for _ in range(count):
            following: dict[frozenset[int], _State] = {}
            for state in states:
                for d in sorted(state.ready):
                    made = self._next(state, d)
                    key = frozenset(made.order)
                    if key not in following or _rank(made) < _rank(following[key]):
                        following[key] = made
            states = sorted(following.values(), key=_rank)[:WIDTH]
        return states[0].order

    def _next(self, state: _State, d: int) -> _State:
        run = {*state.order, d}
        written = {b for e in state.order for b in self._written(e)} | self.inputs
        need, alive = self._need(d, written, run)
        released = {e for e in self.after[d] if self.before[e] <= run}
        return _State(max(state.peak, need), alive, (*state.order, d), state.ready - {d} | released)

    def _need(self, d: int, written: set[int], run: set[int]) -> tuple[int, int]:
        """The memory that dispatch `d` takes where `written` holds values and `run` are all that have run with it; and
        what is alive after it."""
        dispatch, here = replace(self.schedule.dispatches[d], index=1), self._written(d)
        held = written | set(self.schedule.state.values())
        buffers, alive = [], 0
        for number, size in enumerate(self.schedule.buffer_bytes):
            users = self.users.get(number, set())
            lasts = (number in self.kept and number in held | here) or bool(users - run)
            first, last = 3, 3
            if d in users or (number in held and lasts):
                first, last = int(number in here and number not in held), 2 if lasts else 1
                alive += size if lasts else 0
            buffers.append(Buffer("", size, first, last))
        scratch = Buffer("", dispatch.lowered.scratch_bytes, 1, 1)
        sharings = tuple(self.schedule.sharings_of(dispatch, buffers, len(buffers), keep_inputs=False))
        return needed([*buffers, scratch], sharings, 1), alive

    def _written(self, d: int) -> set[int]:
        return {w.buffer for w in self.schedule.dispatches[d].writes}


def _rank(state: _State) -> tuple[int, int, tuple[int, ...]]:
    return state.peak, state.alive, state.order


def _buffers(dispatch: Dispatch) -> set[int]:
    return {r.buffer for r in (*dispatch.reads, *dispatch.writes) if r is not None}
