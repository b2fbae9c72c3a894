# SPDX-License-Identifier: Apache-2.0
"""The console of real firmware, booted in the emulator on each family of cores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from boards.board import Board
from boards.loader import board_names
from qemu.console import DeviceError
from qemu.stack import StackRegion
from tests.firmware.emulated import booted
from tests.firmware.fake import expected
from toolchain.firmware import FirmwareResult

Build = Callable[[str], tuple[Board, FirmwareResult]]

BOARDS = board_names()
IMAGE = np.arange(-16, 16, dtype=np.int8)


@pytest.mark.parametrize("name", BOARDS)
def test_infers_within_its_stack_bound(firmware: Build, name: str) -> None:
    board, result = firmware(name)
    with booted(board, result.runs) as (console, emulation):
        assert console.name() == name
        assert console.model() == "fake"
        console.load(IMAGE.tobytes())
        timing = console.infer(2, 1)
        assert console.outputs() == expected(IMAGE).tobytes()
        scores = (expected(IMAGE).astype(np.float64).ravel() + 128) * 0.00390625
        assert np.allclose(timing.results, scores, atol=0.0006)
        assert console.self_test().vectors == 3
        bound = result.twin_stack or result.stack
        used = StackRegion.of(result.runs).high_water(emulation)
        assert 0 < used <= bound.program + bound.handlers


@pytest.mark.parametrize("name", ("qemu_m3", "qemu_rv32ec"))
def test_every_command_answers(firmware: Build, name: str) -> None:
    board, result = firmware(name)
    with booted(board, result.runs) as (console, _):
        assert console.command("") == []
        assert "results" in console.command("help")[0]
        first, second = (int(console.command("timestamp")[0].removeprefix("m-lap-us-")) for _ in range(2))
        assert 0 < second - first < 5_000_000
        assert console.command("db load 32") == ["m-[Expecting 32 bytes]"]
        assert console.command("db " + "1A" * 31) == []
        assert console.command("db 2b") == ["m-load-done"]
        assert console.command("db 2b") == []
        lines = console.command("db print")
        assert lines == ["m-buffer" + "-1A" * 8] * 3 + ["m-buffer" + "-1A" * 7 + "-2B"]
        answer = console.command("infer 3 2")
        laps = [line for line in answer if line.startswith("m-lap-us-")]
        assert answer[:3] == ["m-warmup-start-2", "m-warmup-done", "m-infer-start-3"] and len(laps) == 2
        assert answer[5] == "m-infer-done" and answer[6] == console.command("results")[0]
        assert console.command("out")[0].startswith("m-out-[") and len(console.command("out")[0]) == 8 + 2 * 4
        used, size = map(int, console.command("stack")[0].removeprefix("m-stack-[").rstrip("]").split(","))
        assert 0 < used < size


@pytest.mark.parametrize(
    "command",
    ("nonsense", "namex", "db", "db load", "db load 31", "db 00", "db 0", "db 0g", "infer 0", "infer -1", "infer 1 x")
)  # fmt: skip
def test_refuses(firmware: Build, command: str) -> None:
    board, result = firmware("qemu_m3")
    with booted(board, result.runs) as (console, _):
        with pytest.raises(DeviceError, match=r"e-\["):
            console.command(command)
        assert console.name() == "qemu_m3"


def test_cuts_long_lines(firmware: Build) -> None:
    board, result = firmware("qemu_m3")
    with booted(board, result.runs) as (console, _):
        with pytest.raises(DeviceError, match="Unknown command: " + "x" * 80 + "]"):
            console.command("x" * 300)
        assert console.self_test().failure is None
