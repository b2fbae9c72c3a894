# SPDX-License-Identifier: Apache-2.0
"""State in firmware: first values at the first inference, kept from run to run, restored by a reset."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from boards.loader import load_board
from compiler.compile import compile_graph
from compiler.model import Model
from tests.firmware.emulated import booted
from tests.streaming import ROW, expected_windows, window_graph
from toolchain.firmware import build_firmware
from toolchain.options import FirmwareOptions
from toolchain.target import target_of

ROWS = np.random.default_rng(1).integers(-128, 128, (4, ROW)).astype(np.int8)


@pytest.mark.parametrize("name", ("qemu_m4", "qemu_rv32ec"))
def test_state_survives_and_is_reset(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    model = compile_graph(window_graph(), Model("window.tflite", b""), target_of(board.core))
    assert model.stateful
    result = build_firmware(board, model, tmp_path, FirmwareOptions())
    assert "void window_reset(void);" in result.header.read_text().splitlines()
    windows = [window.tobytes() for window in expected_windows(ROWS)]
    with booted(board, result.runs) as (console, _):
        # No reset before the first rows: the first inference sets the state.
        assert list(console.run(row.tobytes() for row in ROWS)) == windows
        assert list(console.run([ROWS[0].tobytes()])) != windows[:1]
        console.reset()
        assert list(console.run(row.tobytes() for row in ROWS)) == windows
