# SPDX-License-Identifier: Apache-2.0
"""The arena planner: never a clash, the bound where it can be met, and a checker that sees what is wrong."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from compiler.arena import ArenaPlan, Buffer, check_plan, lower_bound, plan_arena


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
