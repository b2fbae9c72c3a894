# SPDX-License-Identifier: Apache-2.0
"""Operators of one byte, exhaustively: against TFLite Micro and LiteRT, and on cores."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.byte_functions import COUNT, FUNCTIONS, PAIRS, TOGETHER, byte_function, byte_functions
from tests.fuzz.checks import contradictions, differences, supported
from tests.fuzz.test_random_models import ORACLES
from tests.programs import core_boards

ALL = range(COUNT)
FAST_CORES = ("host", "cortex-m4f", "rv32imac")
ANSWERED = {"tflm": 15, "litert": 22}
"""How many of the functions a runtime has at least."""


def test_all_of_them_are_supported() -> None:
    assert len(supported(ALL, byte_function)) == COUNT


@pytest.mark.parametrize("kernels", ANSWERED)
def test_reference(kernels: str) -> None:
    if kernels not in ORACLES:
        pytest.skip(f"{kernels} is not installed: see docs/VERIFY.md")
    told, answered = contradictions(ALL, ORACLES[kernels], byte_function)
    assert ANSWERED[kernels] * PAIRS <= answered <= len(FUNCTIONS) * PAIRS
    assert not told, "\n".join(told)


@pytest.mark.parametrize(
    "core",
    [*FAST_CORES, *(pytest.param(core, marks=pytest.mark.sweep) for core in core_boards() if core not in FAST_CORES)],
)
def test_compiled(core: str, tmp_path: Path) -> None:
    told = differences(range(COUNT // TOGETHER), core, tmp_path, byte_functions)
    assert not told, "\n".join(told)
