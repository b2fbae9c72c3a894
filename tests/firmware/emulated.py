# SPDX-License-Identifier: Apache-2.0
"""Boot firmware in the emulator and talk to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from boards.board import Board
from qemu.console import Console
from qemu.machine import Emulation


@contextmanager
def booted(board: Board, elf: Path) -> Iterator[tuple[Console, Emulation]]:
    """The console after its boot banner, and the emulation."""
    with Emulation(board.emulator, elf, 60.0) as emulation:
        emulation.resume()
        console = Console(emulation)
        console.wait_ready()
        yield console, emulation
