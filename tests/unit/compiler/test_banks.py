# SPDX-License-Identifier: Apache-2.0
"""An arena in several banks of memory: no buffer lies in two of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.arena import ALIGNMENT, ArenaPlan, Buffer, Sharing, check_plan, plan_arena
from compiler.artifact import arena_parts, part_of


def in_bank(plan: ArenaPlan, number: int) -> int:
    limits = (0, *plan.walls, plan.bytes)
    return limits[number + 1] - limits[number]


def test_each_bank_takes_what_it_holds() -> None:
    buffers = [Buffer("a", 96, 0, 2), Buffer("b", 48, 0, 2), Buffer("c", 32, 1, 2)]
    plan = plan_arena(buffers, banks=(64,))
    assert plan.bytes == 176 and plan.walls == (48,)
    assert dict(zip("abc", plan.offsets, strict=True)) == {"a": 48, "b": 0, "c": 144}
    plan = plan_arena(buffers, banks=(80,))
    assert plan.bytes == 176 and plan.walls == (80,)


def test_a_bank_that_holds_nothing_stays_empty() -> None:
    plan = plan_arena([Buffer("a", 96, 0, 0), Buffer("b", 96, 0, 0)], banks=(100, 50))
    assert plan.walls == (96, 96) and plan.bytes == 192
    parts = arena_parts("m", plan.bytes, plan.walls)
    assert [(part.symbol, part.offset, part.bytes) for part in parts] == [
        ("m_arena", 0, 96), ("m_arena_1", 96, 0), ("m_arena_2", 96, 96),
    ]  # fmt: skip
    assert [part_of(parts, offset).symbol for offset in (0, 95, 96)] == ["m_arena", "m_arena", "m_arena_2"]


def test_an_output_lies_over_its_input_in_the_same_bank() -> None:
    buffers = [Buffer("a", 64, 0, 1), Buffer("b", 64, 1, 2), Buffer("c", 32, 0, 2)]
    plan = plan_arena(buffers, [Sharing(1, 0, -64)], banks=(64,))
    assert plan.bytes == 96 and plan.offsets[0] == plan.offsets[1]


def test_a_buffer_in_two_banks_is_found() -> None:
    with pytest.raises(ValueError, match="a at 0 lies in two banks"):
        check_plan(ArenaPlan((Buffer("a", 64, 0, 0),), (0,), 64, 64, (), (32,)))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 200), st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=8),
    st.lists(st.integers(16, 300), min_size=1, max_size=2),
)
def test_every_plan_keeps_to_its_banks(drawn: list[tuple[int, int, int]], banks: list[int]) -> None:
    buffers = [Buffer(str(i), size, first, first + more) for i, (size, first, more) in enumerate(drawn)]
    plan = plan_arena(buffers, attempts=20, banks=banks)
    assert all(in_bank(plan, number) <= bank for number, bank in enumerate(banks))
    assert all(wall % ALIGNMENT == 0 for wall in plan.walls)
    assert plan.bytes >= plan.lower_bound
