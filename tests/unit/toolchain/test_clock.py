# SPDX-License-Identifier: Apache-2.0
"""The console's time, computed by the building machine's C compiler from a counter that the test turns."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT
from toolchain.templates import render

TIMERS = sorted(path.name.removesuffix(".c.j2") for path in (ROOT / "firmware_templates" / "timer").glob("*.c.j2"))
PROGRAM = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
enum {{ TICKS = {ticks}, TICKS_US = {microseconds} }};
static uint32_t counter;
static uint32_t ticks_now(void) {{ return counter; }}
static uint32_t divide(uint32_t value, uint32_t by) {{ return value / by; }}
{clock}
int main(int count, char **steps)
{{
    for (int i = 1; i < count; i++) {{
        counter += (uint32_t)strtoul(steps[i], NULL, 10);
        printf("%u\\n", microseconds());
    }}
    return 0;
}}
"""


def told(folder: Path, ticks: int, microseconds: int, steps: list[int]) -> list[int]:
    """What the clock says after each step of the counter."""
    source, program = folder / "clock.c", folder / "clock"
    source.write_text(PROGRAM.format(ticks=ticks, microseconds=microseconds, clock=render("clock.c", {})))
    subprocess.run(["gcc", "-Wall", "-Werror", "-o", str(program), str(source)], check=True)
    done = subprocess.run([str(program), *map(str, steps)], capture_output=True, text=True, check=True)
    return [int(line) for line in done.stdout.split()]


@pytest.mark.parametrize(("ticks", "microseconds"), [(600, 1), (1, 1), (144, 8), (27, 4)])
def test_time_goes_on_where_the_counter_begins_again(ticks: int, microseconds: int, tmp_path: Path) -> None:
    steps = [7, 2**31, 2**31, 2**32 - 1000, 5, 1_000_003, 2**30]
    passed = [sum(steps[: i + 1]) for i in range(len(steps))]
    expected = [total // ticks * microseconds % 2**32 for total in passed]
    assert told(tmp_path, ticks, microseconds, steps) == expected


@pytest.mark.parametrize("timer", TIMERS)
def test_every_timer_says_how_fast_it_counts(timer: str) -> None:
    text = render(f"timer/{timer}.c", {"clock_mhz": 144, "emulated": False})
    assert "enum { TICKS = " in text and "uint32_t ticks_now(void)" in text and "microseconds" not in text
