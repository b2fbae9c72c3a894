# SPDX-License-Identifier: Apache-2.0
"""Chooses among the lowerings of each operator: the fewest instructions within budgets of flash and arena.

Instructions and code sizes are those measured (`compiler.pricing`) where they are known, else estimates. Operator by
operator, of all sums of flash and instructions only those are kept that no other sum beats in both: exact, but for
kernels and constants that operators share, which are counted for each. The flash that sharing leaves is then spent one
operator at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from compiler.arena import Buffer, lower_bound, needed
from compiler.costs import Costs
from compiler.kernels.compact import Compact, quick
from compiler.kernels.kernel import Constant, Lowered
from compiler.schedule import Dispatch, Schedule
from compiler.settings import Optimize, Settings

MODEL_ALLOWANCE = 20 * 1024
CONVOLUTION_ALLOWANCE = 24 * 1024
"""BALANCED: kernels and constants may take so much more than the model file, the latter where there are convolutions.
An interpreter and its kernel library take 30 to 55 KB beside the file, start-up and console some 5 KB."""
FLASH_UNIT = 256
"""Flash is counted in units of so many bytes, rounded up, which bounds the sums that are kept."""
SHARING = 800
"""BALANCED: an operator uses another's kernel where each KB that it saves costs 1/800 of all instructions at most."""
SCRATCH_SHARE, SCRATCH_LEAST, SCRATCH_MOST = 3 / 16, 768, 6144
"""Scratch memory, and outputs kept apart from inputs, may raise the arena above the tensors' lower bound by this part
of it, within these bytes, without need."""
APART_MOST, ROOMY_GAIN = 5632, 0.15
"""BALANCED: where 15 % of the instructions go, the arena may be what tensors without overlap take, and an eighth,
at most so many bytes."""
_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")


@dataclass(frozen=True)
class _Option:
    lowered: Lowered
    flash: int


@dataclass(frozen=True)
class _Sum:
    """Options chosen so far, with their bytes of flash and instructions."""

    flash: int
    instructions: int
    chosen: tuple[Lowered, ...]


def choose(schedule: Schedule, settings: Settings, model_bytes: int, arena: int | None = None) -> Schedule:
    """The schedule with one lowering for each operator; within an arena of so many bytes, where the caller knows that
    every operator has a lowering that fits."""
    if not any(d.lowered.alternatives for d in schedule.dispatches):
        return schedule
    tensors = schedule.lifetimes(keep_inputs=False)[: len(schedule.buffer_bytes)]
    if arena is not None:
        return _with(schedule, _within(schedule, tensors, settings, model_bytes, arena))
    bound = max(
        min(_need(schedule, tensors, d, replace(o, scratch_bytes=0)) for o in _candidates(d))
        for d in schedule.dispatches
    )
    least = max(min(needs) for needs in needs_of(schedule))
    arena = max(least, bound + min(max(int(bound * SCRATCH_SHARE), SCRATCH_LEAST), SCRATCH_MOST))
    chosen = _within(schedule, tensors, settings, model_bytes, arena)
    if settings.optimize is Optimize.BALANCED:
        apart = lower_bound(tensors)
        roomy = _within(schedule, tensors, settings, model_bytes, max(least, apart + min(apart // 8, APART_MOST)))
        if _instructions(roomy) <= (1 - ROOMY_GAIN) * _instructions(chosen):
            chosen = roomy
    return _with(schedule, chosen)


def _within(
    schedule: Schedule, tensors: Sequence[Buffer], settings: Settings, model_bytes: int, arena: int
) -> list[Lowered]:
    """The choice for an arena of so many bytes, in which every operator has a lowering that fits. Compact lowerings are
    for SIZE, and for what does not fit without."""
    limit = _flash_limit(schedule, settings, model_bytes)
    chosen: list[Lowered] = []
    for compact in (False, True) if settings.optimize is not Optimize.SIZE else (True,):
        options = [
            [
                _Option(o, _flash(settings.costs, o))
                for o in _candidates(d, compact)
                if _need(schedule, tensors, d, o) <= arena
            ]
            for d in schedule.dispatches
        ]
        chosen = _chosen(options, settings, limit)
        if limit is None or _flash(settings.costs, *chosen) <= limit:
            break
    return chosen


def _chosen(options: Sequence[Sequence[_Option]], settings: Settings, limit: int | None) -> list[Lowered]:
    smallest = _least(options, settings.costs)
    if settings.optimize is Optimize.SIZE:
        return smallest
    # What operators share may leave more room beside the smallest ones than `_fewest` knows of.
    starts = (list(_fewest(options, limit)), smallest)
    chosen = min((_improved(options, start, limit, settings.costs) for start in starts), key=_instructions)
    return _shared(options, chosen, settings.costs) if settings.optimize is Optimize.BALANCED else chosen


def needs_of(schedule: Schedule) -> list[list[int]]:
    """The memory that each dispatch takes with each of its lowerings."""
    tensors = schedule.lifetimes(keep_inputs=False)[: len(schedule.buffer_bytes)]
    return [[_need(schedule, tensors, d, o) for o in _candidates(d)] for d in schedule.dispatches]


def instructions_of(schedule: Schedule) -> int:
    """The estimate for all dispatches."""
    return _instructions([d.lowered for d in schedule.dispatches])


def _instructions(chosen: Sequence[Lowered]) -> int:
    return sum(lowered.instructions for lowered in chosen)


def _candidates(dispatch: Dispatch, compact: bool = False) -> tuple[Lowered, ...]:
    lowered = dispatch.lowered
    return (lowered, *lowered.alternatives) if compact else quick(lowered)


def _with(schedule: Schedule, chosen: Sequence[Lowered]) -> Schedule:
    dispatches = tuple(
        replace(d, lowered=replace(lowered, alternatives=()))
        for d, lowered in zip(schedule.dispatches, chosen, strict=True)
    )
    return replace(schedule, dispatches=dispatches)


def _need(schedule: Schedule, tensors: Sequence[Buffer], dispatch: Dispatch, lowered: Lowered) -> int:
    """The least memory for the tensors that are alive at a dispatch and its scratch memory."""
    scratch = Buffer("scratch", lowered.scratch_bytes, dispatch.index, dispatch.index)
    sharings = schedule.sharings_of(replace(dispatch, lowered=lowered), tensors, len(tensors), keep_inputs=False)
    return needed([*tensors, scratch], tuple(sharings), dispatch.index)


def _flash(costs: Costs, *lowered: Lowered) -> int:
    """`_bytes` in units."""
    return -(-_bytes(costs, *lowered) // FLASH_UNIT) * FLASH_UNIT


def _bytes(costs: Costs, *lowered: Lowered) -> int:
    """Constants and code; what is equal is counted once."""
    code: dict[str, int] = {}
    for each in lowered:
        code |= each.code
    constants: frozenset[Constant] = frozenset().union(*(each.constants for each in lowered))
    return sum(len(c.data) for c in constants) + sum(costs.code_bytes.get(name, size) for name, size in code.items())


def _least(options: Sequence[Sequence[_Option]], costs: Costs) -> list[Lowered]:
    """The least flash for all operators together, as far as changes of one operator, or of all that can have one
    kernel, lead to it from the smallest lowering of each and from the smallest compact one."""
    smallest = [min(each, key=lambda o: (o.flash, o.lowered.instructions)).lowered for each in options]
    compact = [[o for o in each if isinstance(o.lowered, Compact)] or list(each) for each in options]
    if not any(isinstance(o.lowered, Compact) for each in options for o in each):
        return smallest
    start = [min(each, key=lambda o: (o.flash, o.lowered.instructions)).lowered for each in compact]
    return min((_reduced(options, chosen, costs) for chosen in (smallest, start)), key=partial(_cost, costs))


def _reduced(options: Sequence[Sequence[_Option]], chosen: list[Lowered], costs: Costs) -> list[Lowered]:
    cost = partial(_cost, costs)
    kernels = sorted({name for each in options for o in each for name in o.lowered.code})
    best, least = chosen, None
    while least is None or cost(best) < least:
        least = cost(best)
        for name in kernels:
            best = min((best, *_moved(options, best, name, costs)), key=cost)
        for i, each in enumerate(options):
            best = min((best, *([*best[:i], o.lowered, *best[i + 1 :]] for o in each)), key=cost)
    return best


def _moved(
    options: Sequence[Sequence[_Option]], chosen: list[Lowered], kernel: str, costs: Costs
) -> Iterator[list[Lowered]]:
    """All operators that can have a kernel have it: with no other but those in use, and with as little other code as
    can be."""
    used = {kernel, *(name for lowered in chosen for name in lowered.code)}

    def more(lowered: Lowered) -> int:
        new = sum(costs.code_bytes.get(name, size) for name, size in lowered.code.items() if name not in used)
        return new + sum(len(constant.data) for constant in lowered.constants)

    for alone in (True, False):
        fitting = [
            [o.lowered for o in each if kernel in o.lowered.code and (not alone or o.lowered.code.keys() <= used)]
            for each in options
        ]
        yield [min(each, key=more, default=before) for each, before in zip(fitting, chosen, strict=True)]


def _cost(costs: Costs, chosen: Sequence[Lowered]) -> tuple[int, int]:
    """Bytes of flash, then instructions."""
    return _bytes(costs, *chosen), _instructions(chosen)


def _flash_limit(schedule: Schedule, settings: Settings, model_bytes: int) -> int | None:
    if settings.optimize is Optimize.SPEED:
        return settings.flash_bytes
    limit = model_bytes + MODEL_ALLOWANCE
    if any(o.op in _CONVOLUTIONS for d in schedule.dispatches for o in d.operators):
        limit += CONVOLUTION_ALLOWANCE
    return limit if settings.flash_bytes is None else min(limit, settings.flash_bytes)


def _fewest(options: Sequence[Sequence[_Option]], limit: int | None) -> tuple[Lowered, ...]:
    """The options with the fewest instructions whose flash is within the limit; with the least flash if none is."""
    rest = [sum(min(o.flash for o in each) for each in options[i:]) for i in range(len(options) + 1)]
    sums = [_Sum(0, 0, ())]
    for i, each in enumerate(options):
        grown = [
            _Sum(s.flash + o.flash, s.instructions + o.lowered.instructions, (*s.chosen, o.lowered))
            for s in sums
            for o in each
        ]
        grown.sort(key=lambda s: (s.flash, s.instructions))
        sums = []
        for s in grown:
            within = limit is None or s.flash + rest[i + 1] <= limit
            if not sums or (within and s.instructions < sums[-1].instructions):
                sums.append(s)
    return sums[-1].chosen


def _improved(
    options: Sequence[Sequence[_Option]], chosen: list[Lowered], limit: int | None, costs: Costs
) -> list[Lowered]:
    """Changes one operator at a time, the most instructions saved first, as long as the whole is within the limit."""
    moves = [
        (each.lowered.instructions - before.instructions, i, each.lowered)
        for i, before in enumerate(chosen)
        for each in options[i]
        if each.lowered.instructions < before.instructions
    ]
    for _, i, lowered in sorted(moves, key=lambda move: move[:2]):
        changed = [*chosen[:i], lowered, *chosen[i + 1 :]]
        better = lowered.instructions < chosen[i].instructions
        if better and (limit is None or _flash(costs, *changed) <= limit):
            chosen = changed
    return chosen


def _shared(options: Sequence[Sequence[_Option]], chosen: list[Lowered], costs: Costs) -> list[Lowered]:
    """Gives up kernels that one operator alone uses, where that costs little."""
    for i, each in enumerate(options):
        flash, most = _flash(costs, *chosen), _instructions(chosen) / SHARING
        used = {name for other in (*chosen[:i], *chosen[i + 1 :]) for name in other.code}
        for option in each:
            if not option.lowered.code.keys() <= used:
                continue
            changed = [*chosen[:i], option.lowered, *chosen[i + 1 :]]
            saved = (flash - _flash(costs, *changed)) / 1024
            if saved > 0 and option.lowered.instructions - chosen[i].instructions <= most * saved:
                chosen = changed
                break
    return chosen
