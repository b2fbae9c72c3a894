# SPDX-License-Identifier: Apache-2.0
"""The simulator of the package `labwired` as the transport of a console: an implementation of the chips that shares no
code with QEMU and none with us."""

from __future__ import annotations

import tempfile
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


WITHOUT_FPCCR = ("nrf52832", "nrf52840")
"""Chips whose descriptions lack the float unit's control register, which start-up writes."""
FPCCR = """
  - name: "fpccr"
    base: 0xE000EF30
    size: "16B"
"""


@contextmanager
def simulated(board: Board, elf: Path) -> Iterator[tuple[Console, Any]]:
    """The console of the very firmware.elf, booted, and the simulator. Skips where the simulator is not installed."""
    labwired = pytest.importorskip("labwired")
    with tempfile.TemporaryDirectory() as folder:
        chip: dict[str, Any] = {"chip": board.simulator}
        if board.simulator in WITHOUT_FPCCR:
            chip = {"system": _completed(Path(labwired.__file__).parent / "configs", board.simulator, Path(folder))}
        with _console(labwired.Sim(elf, **chip)) as found:
            yield found


def _completed(configs: Path, chip: str, folder: Path) -> Path:
    """A system of the chip with plain memory at FPCCR."""
    text = (configs / "chips" / f"{chip}.yaml").read_text().replace('"../', f'"{configs}/')
    assert text.count("memory_regions:\n") == 1
    (folder / "chip.yaml").write_text(text.replace("memory_regions:\n", "memory_regions:" + FPCCR))
    system = folder / "system.yaml"
    system.write_text(f'name: "{chip}"\nchip: "{folder}/chip.yaml"\nexternal_devices: []\nboard_io: []\n')
    return system


@contextmanager
def _console(simulation: Any) -> Iterator[tuple[Console, Any]]:
    with simulation as sim:
        console = Console(Transport(sim), timeouts=Timeouts(line_s=30.0, infer_s=60.0))
        console.wait_ready()
        yield console, sim
