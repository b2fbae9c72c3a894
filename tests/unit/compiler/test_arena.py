# SPDX-License-Identifier: Apache-2.0
"""The arena planner: never a clash, the bound where it can be met, and a checker that sees what is wrong."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import pytest

from compiler.arena import ALIGNMENT, ArenaPlan, Buffer, Sharing, check_plan, lower_bound, plan_arena


def test_chain_meets_the_lower_bound() -> None:
    buffers = [Buffer(f"t{i}", 1000 * (i % 3 + 1), i, i + 1) for i in range(10)]
    plan = plan_arena(buffers)
    assert plan.bytes == plan.lower_bound == lower_bound(buffers) == 5008


@pytest.mark.parametrize("seed", range(20))
def test_random_lifetimes_never_clash(seed: int) -> None:
    random = Random(seed)
    buffers = []
    for i in range(25):
        first = random.randrange(30)
        buffers.append(Buffer(f"t{i}", random.randrange(1, 5000), first, first + random.randrange(6)))
    plan = plan_arena(buffers, attempts=50)
    assert plan.lower_bound <= plan.bytes <= 1.3 * plan.lower_bound
    for i, (a, at) in enumerate(zip(plan.buffers, plan.offsets, strict=True)):
        for b, other in list(zip(plan.buffers, plan.offsets, strict=True))[:i]:
            assert not a.meets(b) or at + a.bytes <= other or other + b.bytes <= at


def test_empty_buffers_take_no_room() -> None:
    plan = plan_arena([Buffer("a", 0, 0, 5), Buffer("b", 64, 0, 5)])
    assert plan.bytes == 64


def test_the_checker_sees_a_clash() -> None:
    plan = plan_arena([Buffer("a", 64, 0, 1), Buffer("b", 64, 1, 2)])
    with pytest.raises(ValueError, match="buffers a and b overlap at dispatch 1"):
        check_plan(replace(plan, offsets=(0, 48)))


def test_the_checker_sees_what_lies_outside() -> None:
    with pytest.raises(ValueError, match="misaligned or outside"):
        check_plan(ArenaPlan((Buffer("a", 64, 0, 1),), (16,), 64, 64))


def test_an_output_slides_over_the_input_that_it_replaces() -> None:
    buffers = [Buffer("a", 160, 0, 1), Buffer("b", 160, 1, 2), Buffer("c", 320, 2, 3)]
    apart, over = plan_arena(buffers), [Sharing(1, 0, 17), Sharing(2, 1, -16)]
    plan = plan_arena(buffers, over)
    assert apart.bytes == 480
    assert plan.bytes == plan.lower_bound == 320
    with pytest.raises(ValueError, match="overlap at dispatch 1"):
        check_plan(replace(plan, offsets=(plan.offsets[1], *plan.offsets[1:])))


def test_outputs_lie_over_inputs_at_whole_multiples_only() -> None:
    buffers = [Buffer("a", 96, 0, 1), Buffer("b", 96, 1, 2)]
    plan = plan_arena(buffers, [Sharing(1, 0, -96, 24, 8)])
    check_plan(plan)
    assert (plan.offsets[0] - plan.offsets[1]) % 24 == 8
    assert plan.bytes == 112
    with pytest.raises(ValueError, match="overlap"):
        check_plan(replace(plan, offsets=(0, 0)))


def test_no_sharing_reaches_beyond_the_dispatch_where_the_input_dies() -> None:
    buffers = [Buffer("a", 64, 0, 2), Buffer("b", 64, 1, 2)]
    assert plan_arena(buffers, [Sharing(1, 0, -64)]).bytes == 128
    with pytest.raises(ValueError, match="overlap at dispatch 1"):
        check_plan(ArenaPlan(tuple(buffers), (0, 0), 64, 64, (Sharing(1, 0, -64),)))


@pytest.mark.parametrize("seed", range(12))
def test_small_plans_with_sharings_are_optimal_or_above_the_bound(seed: int) -> None:
    """Against all offsets of up to five buffers of one to three units."""
    random = Random(seed)
    count = 5
    buffers = [Buffer(str(i), ALIGNMENT * random.randint(1, 3), i, i + 1) for i in range(count)]
    sharings = [
        Sharing(i + 1, i, ALIGNMENT * random.randint(-2, 3), random.choice((1, 1, 32, 48)))
        for i in range(count - 1)
        if random.random() < 0.8
    ]
    plan = plan_arena(buffers, sharings)
    best = 10 * ALIGNMENT
    for units in product(range(6), repeat=count):
        offsets = tuple(ALIGNMENT * u for u in units)
        size = max(o + b.bytes for o, b in zip(offsets, buffers, strict=True))
        if size < best and _passes(ArenaPlan(tuple(buffers), offsets, size, 0, tuple(sharings))):
            best = size
    assert plan.lower_bound <= best == plan.bytes


def _passes(plan: ArenaPlan) -> bool:
    try:
        check_plan(plan)
    except ValueError:
        return False
    return True


def test_a_proof_raises_the_bound_where_distances_add_up() -> None:
    """Every second tensor is 64 ahead of its input, the others need scratch memory: no moment alone shows it."""
    buffers = [Buffer(str(i), 640, i, i + 1) for i in range(5)] + [Buffer("s", 320, 1, 1), Buffer("t", 320, 3, 3)]
    sharings = [Sharing(1, 0, -640), Sharing(2, 1, 64), Sharing(3, 2, -640), Sharing(4, 3, 64)]
    plan = plan_arena(buffers, sharings)
    assert lower_bound(buffers, sharings) == 960
    assert plan.bytes == plan.lower_bound == 960 + 64
    check_plan(plan)
