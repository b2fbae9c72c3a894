# SPDX-License-Identifier: Apache-2.0
"""The simulator of the package `labwired` as the transport of a console: an implementation of the chips that shares no
code with QEMU and none with us."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from boards.board import Board
from qemu.console import Console, Timeouts

STEP = "100us"
"""Virtual time that passes while the host waits for the firmware."""


class Transport:
    """The chip's UART; virtual time passes only while the host reads."""

    def __init__(self, sim: Any) -> None:
        self._sim = sim

    def write(self, data: bytes) -> None:
        self._sim.send_bytes(data)

    def read(self, timeout_s: float) -> bytes:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self._sim.run_for(STEP)
            data = bytes(self._sim.read_uart_bytes())
            if data:
                return data
        return b""


@contextmanager
def simulated(board: Board, elf: Path) -> Iterator[tuple[Console, Any]]:
    """The console of the very firmware.elf, booted, and the simulator. Skips where the simulator is not installed."""
    labwired = pytest.importorskip("labwired")
    with labwired.Sim(elf, chip=board.simulator) as sim:
        console = Console(Transport(sim), timeouts=Timeouts(line_s=30.0, infer_s=60.0))
        console.wait_ready()
        yield console, sim
