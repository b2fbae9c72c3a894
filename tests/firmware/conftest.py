# SPDX-License-Identifier: Apache-2.0
"""Firmware around a hand-written model, built once a board and test run."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from boards.board import Board
from boards.loader import load_board
from tests.firmware.fake import fake_model
from toolchain.firmware import FirmwareResult, build_firmware
from toolchain.options import FirmwareOptions


@pytest.fixture(scope="session")
def firmware(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Board, FirmwareResult]]:
    """A board's name to the board and its firmware."""

    @cache
    def build(name: str) -> tuple[Board, FirmwareResult]:
        board = load_board(name)
        out: Path = tmp_path_factory.mktemp(name)
        return board, build_firmware(board, fake_model(board, out), out, FirmwareOptions(console="uart"))

    return build
