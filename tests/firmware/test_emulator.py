# SPDX-License-Identifier: Apache-2.0
"""The emulator's measurements on real firmware: counts, and rows that go into memory instead of over the console."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from boards.board import Board
from boards.loader import load_board
from qemu.console import Console
from qemu.inputs import InputMemory
from qemu.machine import Emulation
from qemu.profile import WINDOW, profile
from tests.firmware.fake import expected, fake_model, input_port
from toolchain.firmware import FirmwareResult, build_firmware
from toolchain.options import FirmwareOptions

Build = Callable[[str], tuple[Board, FirmwareResult]]
BOARDS = ("qemu_m3", "pico", "qemu_m33", "ch32v003", "netduinoplus2")


@pytest.mark.parametrize("name", BOARDS)
def test_counts_are_exact_and_repeat(firmware: Build, name: str) -> None:
    board, result = firmware(name)
    rows = [np.arange(-16, 16, dtype=np.int8).tobytes()] * 5
    counted = profile(board, result.runs, "fake", 1, rows, 60)
    again = profile(board, result.runs, "fake", 1, rows, 60, [("fake_arena", input_port().offset, input_port().bytes)])
    assert counted.exact and counted.spread == 0 and counted.total > 32
    assert counted == again
    assert all(len(inference.dispatches) == 1 for inference in counted.inferences)


@pytest.mark.parametrize("name", BOARDS)
def test_rows_by_memory_give_what_rows_by_console_give(firmware: Build, name: str) -> None:
    board, result = firmware(name)
    check_rows_by_memory(board, result)


def test_rows_by_memory_where_the_model_overwrites_its_input(tmp_path: Path) -> None:
    board = load_board("qemu_m4f")
    result = build_firmware(board, fake_model(board, tmp_path, overwrites=True), tmp_path, FirmwareOptions())
    check_rows_by_memory(board, result)


def check_rows_by_memory(board: Board, result: FirmwareResult) -> None:
    images = [np.random.default_rng(seed).integers(-128, 128, 32).astype(np.int8) for seed in range(6)]
    rows = [image.tobytes() for image in images]
    port = input_port()
    memory = InputMemory.of(result.runs, [("fake_arena", port.offset, port.bytes)])
    with Emulation(board.emulator, result.runs, 60.0) as emulation:
        emulation.resume()
        console = Console(emulation, WINDOW)
        console.wait_ready()
        assert list(console.run(rows)) == [expected(image).tobytes() for image in images]
        by_memory = console.run(reversed(rows), lambda row: memory.load(emulation, row))
        assert list(by_memory) == [expected(image).tobytes() for image in reversed(images)]
        with pytest.raises(ValueError, match="a row has 32 bytes, not 31"):
            memory.load(emulation, rows[0][:-1])
