# SPDX-License-Identifier: Apache-2.0
"""Estimates of cycles, against sums by hand from the manuals' tables."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from boards.loader import board_names, load_board
from toolchain.elf.disassembly import Code, parse
from toolchain.measure.cycles import estimate, timing_of, timings

LOOP = """
 100:\t6801      \tldr\tr1, [r0, #0]
 102:\t6842      \tldr\tr2, [r0, #4]
 104:\t434a      \tmuls\tr2, r1
 106:\t3b01      \tsubs\tr3, #1
 108:\td1fa      \tbne.n\t100 <loop>
 10a:\tf000 f801 \tbl\t110 <next>
 10e:\tbdf0      \tpop\t{r4, r5, r6, r7, pc}
"""
RUNS = {0x100: 10, 0x102: 10, 0x104: 10, 0x106: 10, 0x108: 10, 0x10A: 1, 0x10E: 1}


@dataclass(frozen=True)
class Case:
    core: str
    cycles: int


@pytest.mark.parametrize(
    "case",
    [
        # Ten times 2 + 1 for the loads, 1, 1, 1; nine branches taken; a call; five registers and a refill.
        Case("cortex-m4f", 60 + 9 * 2 + 3 + 1 + 5 + 2),
        Case("cortex-m3", 60 + 9 * 2 + 3 + 1 + 5 + 2),
        # Loads do not overlap: 2 + 2.
        Case("cortex-m0", 70 + 9 * 2 + 4 + 1 + 5 + 2),
        Case("cortex-m0plus", 70 + 9 * 1 + 3 + 1 + 5 + 1),
    ],
    ids=lambda case: case.core,
)
def test_sums_by_hand(case: Case) -> None:
    timing = timing_of(case.core)
    assert timing is not None
    assert estimate(timing, Code(parse(LOOP)), RUNS) == case.cycles


def test_what_is_no_branch_is_not_taken_for_one() -> None:
    timing = timing_of("cortex-m4")
    assert timing is not None
    text = " 100:\tf36f 0107 \tbfc\tr1, #0, #8\n 104:\t4a01      \tldr\tr2, [pc, #4]\n"
    assert estimate(timing, Code(parse(text)), {0x100: 1, 0x104: 1}) == 1 + 2


@pytest.mark.parametrize(
    ("core", "line", "cycles"),
    [
        # Tables 3-1 and 7-1 of the manual of Cortex-M4: all products of integers take a cycle.
        ("cortex-m4f", "fb01 2103 \tmla\tr1, r1, r3, r2", 1),
        ("cortex-m4f", "fb01 2113 \tmls\tr1, r1, r3, r2", 1),
        ("cortex-m4f", "fbc2 0103 \tsmlal\tr0, r1, r2, r3", 1),
        ("cortex-m3", "fb01 2103 \tmla\tr1, r1, r3, r2", 2),
        # A register of double precision is two words.
        ("cortex-m4f", "ed2d 8b04 \tvpush\t{d8-d9}", 1 + 4),
        ("cortex-m4f", "ecbd 8b02 \tvpop\t{d8}", 1 + 2),
        ("cortex-m4f", "ecf0 0a03 \tvldmia\tr0!, {s1-s3}", 1 + 3),
    ],
)
def test_single_instructions(core: str, line: str, cycles: int) -> None:
    timing = timing_of(core)
    assert timing is not None
    assert estimate(timing, Code(parse(f" 100:\t{line}\n")), {0x100: 1}) == cycles


def test_tables_name_their_source_and_cores_once() -> None:
    known = {load_board(name).core.name for name in board_names()}
    named = [core for timing in timings() for core in timing.cores]
    assert len(named) == len(set(named))
    assert {"cortex-m0", "cortex-m3", "cortex-m4f"} <= set(named) <= known | {"cortex-m0plus"}
    assert all(timing.source and timing.note and timing.rules for timing in timings())
    assert timing_of("cortex-m55") is None
