# SPDX-License-Identifier: Apache-2.0
"""The built firmware under the emulator, as the commands use it: its report, its console, its stack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boards.board import Board
from compiler.errors import CheckFailed, UserError
from qemu.console import Console, ConsoleError, Timeouts
from qemu.inputs import InputMemory
from qemu.machine import Emulation, EmulatorError
from qemu.profile import WINDOW
from qemu.stack import StackRegion
from toolchain.files import write_text
from toolchain.report.contents import read_report, write_report
from toolchain.report.page import page
from toolchain.request import Request
from toolchain.rows import Samples, TensorForm, split_outputs

INFER_SECONDS = 300.0
"""An inference under the emulator may take this long: float networks on cores without a float unit do."""


@dataclass(frozen=True)
class Built:
    """A finished build: its folder and report.json."""

    board: Board
    folder: Path
    report: dict[str, Any]

    @classmethod
    def of(cls, request: Request) -> Built:
        return cls(request.board, request.folder, read_report(request.folder / "report.json"))

    def record(self) -> None:
        """Keeps what a run has put into `report`, and draws it anew. SCons rebuilds for changed sources alone, so a
        measured figure stays until the next build, which begins without."""
        write_report(self.folder / "report.json", self.report)
        write_text(self.folder / "report.html", page(self.report))

    @property
    def prefix(self) -> str:
        return str(self.report["model"]["prefix"])

    @property
    def elf(self) -> Path:
        """What the emulator runs: the firmware itself where QEMU models the chip, else the twin."""
        return self.folder / ("firmware.elf" if self.board.emulator.native else "emulator.elf")

    @property
    def inputs(self) -> tuple[TensorForm, ...]:
        return forms_of(self.report["inputs"])

    @property
    def input_places(self) -> list[tuple[str, int, int]]:
        """Each input's place: a symbol of the arena, the bytes behind it, and its own bytes."""
        return [(name, behind, size) for name, behind, size in (p["place"] for p in self.report["inputs"])]

    @property
    def outputs(self) -> tuple[TensorForm, ...]:
        return forms_of(self.report["outputs"])


@dataclass(frozen=True)
class Powered:
    """A board that has booted under the emulator."""

    built: Built
    console: Console
    emulation: Emulation
    stack: StackRegion
    memory: InputMemory

    def infer(self, samples: Samples) -> list[NDArray[Any]]:
        """Runs every row, its inputs put into memory (a UART takes minutes for images); returns the outputs. The rows
        of a stateful model are consecutive steps after a reset."""
        if self.built.report["model"]["stateful"]:
            self.console.reset()
        rows = self.console.run(samples.rows(), lambda row: self.memory.load(self.emulation, row))
        return split_outputs(list(rows), self.built.outputs)

    def stack_used(self) -> int:
        """Bytes of stack that were ever written to; stops the guest for good."""
        return self.stack.high_water(self.emulation)


def require_console(built: Built) -> None:
    """UserError for firmware that cannot be talked to."""
    if built.report["console"] == "none":
        raise UserError(
            "this firmware has no console to talk to",
            got=f"app={built.report['app']}" if built.report["app"] else "console=none",
            allowed="console=uart or compact, and no app=",
            hint="build it so to run the model here; `scons run` shows what an application sends",
        )
    if built.report["benchmark"] is not None:
        raise UserError(
            "this firmware talks to the runner of MLPerf Tiny, in the benchmark's own number formats",
            got=f"benchmark={built.report['benchmark']}",
            hint="build it without benchmark= to run the model here; docs/FLASHING.md says how the runner is used",
        )


@contextmanager
def powered(built: Built, seconds: float) -> Iterator[Powered]:
    """Boots the firmware with a painted stack; kills the emulator at the end, or after `seconds`.

    Raises CheckFailed where the firmware or the dialogue fails.
    """
    require_console(built)
    stack = StackRegion.of(built.elf)
    try:
        with Emulation(built.board.emulator, built.elf, seconds) as emulation:
            stack.paint(emulation)
            emulation.resume()
            console = Console(emulation, WINDOW, Timeouts(infer_s=INFER_SECONDS))
            console.wait_ready()
            yield Powered(built, console, emulation, stack, InputMemory.of(built.elf, built.input_places))
    except (ConsoleError, EmulatorError) as error:
        raise CheckFailed(f"{built.elf.name} on {built.board.name} under the emulator: {error}") from error


def forms_of(ports: list[dict[str, Any]]) -> tuple[TensorForm, ...]:
    """The inputs or outputs of a report."""
    return tuple(TensorForm(p["name"], np.dtype(p["dtype"]), tuple(p["shape"])) for p in ports)
