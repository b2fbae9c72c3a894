# SPDX-License-Identifier: Apache-2.0
"""docs/BOARDS.md: every board with its image. `python -m toolchain.commands.board_table` builds all of them, runs each
under QEMU, and writes the file; the simulator column says which boards tests/simulator runs besides."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from boards.board import Board, Core, MemoryKind
from boards.loader import board_names, load_board
from compiler.artifact import CompiledModel
from compiler.compile import compile_model
from compiler.model import Model
from compiler.settings import Settings
from qemu.console import Console
from qemu.machine import Emulation
from toolchain.files import write_text
from toolchain.firmware import FirmwareResult, build_firmware
from toolchain.fit import DoesNotFit
from toolchain.images.forms import form_of
from toolchain.options import FirmwareOptions
from toolchain.request import ROOT
from toolchain.target import settings_of, target_of

DOCUMENT = ROOT / "docs" / "BOARDS.md"
NETWORKS = ("mnist_int8", "mnist_nano_int8")
"""The first one that fits is built."""
HEADER = (
    "board", "chip", "core", "flash", "RAM", "clock", "max", "image", "network", "flash used", "RAM used", "checks",
    "run under QEMU", "simulator",
)  # fmt: skip
STATIC = 8
"""The columns that the board's data alone decides."""

INTRODUCTION = """# Boards

Written by `python -m toolchain.commands.board_table`. Sizes are in KB of 1024 bytes, clocks in MHz; `flash used` and
`RAM used` are bytes of the image, console and stack included. `checks`: the image passed all checks on its ELF file and
its stack is bounded. QEMU runs firmware.elf itself where it models the chip (`itself`), else the twin: the same objects
linked for the emulated machine of the same core; the count is of self-test vectors that gave the reference's bytes.
`simulator`: firmware.elf itself also runs in labwired's model of this chip (tests/simulator); to its descriptions of
nRF52 chips the tests add FPCCR, a register of the core that they lack.

`max` is what `clock=max` gives. It uses no crystal that a board may lack; chips without an entry say why in their file.

"""


@dataclass(frozen=True)
class Row:
    """A line of the table, cell by cell."""

    cells: tuple[str, ...]

    def __str__(self) -> str:
        return "| " + " | ".join(self.cells) + " |"


def static_cells(board: Board) -> tuple[str, ...]:
    """What the board's data alone says."""
    stored = [memory for memory in board.memories if memory.kind is not MemoryKind.RAM]
    banks = [memory for memory in board.memories if memory.kind is MemoryKind.RAM]
    fast = [clock.hz for clock in board.clocks if clock.name == "max"]
    form = form_of(board)
    return (
        board.name,
        board.chip,
        board.core.name,
        " + ".join(_kilobytes(memory.size) for memory in stored),
        " + ".join(_kilobytes(memory.size) for memory in banks),
        f"{board.clock_hz / 1e6:g}",
        f"{fast[0] / 1e6:g}" if fast else "",
        board.image + (", UF2" if form.uf2_family is not None else ""),
    )


def table(rows: Iterable[Row]) -> str:
    """The whole document."""
    lines = [str(Row(HEADER)), str(Row(("---",) * len(HEADER))), *map(str, rows)]
    return INTRODUCTION + "\n".join(lines) + "\n"


def measured_cells(board: Board, folder: Path) -> tuple[str, ...]:
    """Builds, checks and runs the board's image. DoesNotFit where no network does; what QEMU raises where it fails."""
    network, result = _image(board, folder)
    with Emulation(board.emulator, result.runs, 120.0) as emulation:
        emulation.resume()
        console = Console(emulation)
        console.wait_ready()
        test = console.self_test()
    verdict = f"{test.vectors} vectors" if test.failure is None else f"FAIL: {test.failure}"
    return (
        network,
        str(result.sizes.flash.total),
        str(result.sizes.ram.total),
        "passed",
        f"{'itself' if board.emulator.native else 'twin'}, {verdict}",
        board.simulator,
    )


def _image(board: Board, folder: Path) -> tuple[str, FirmwareResult]:
    for network in NETWORKS[:-1]:
        with suppress(DoesNotFit):
            return network, _built(board, network, folder)
    return NETWORKS[-1], _built(board, NETWORKS[-1], folder)


def _built(board: Board, network: str, folder: Path) -> FirmwareResult:
    return build_firmware(board, _compiled(board.core, network, settings_of(board)), folder, FirmwareOptions())


@cache
def _compiled(core: Core, network: str, settings: Settings) -> CompiledModel:
    """Once for all boards of a core with as much flash."""
    path = ROOT / "models" / f"{network}.tflite"
    return compile_model(Model(path.name, path.read_bytes()), target_of(core), settings=settings)


def _kilobytes(size: int) -> str:
    return f"{size / 1024:g}"


@cache
def boards() -> tuple[Board, ...]:
    """Those that can be held in a hand first, then the emulated machines."""
    loaded = [load_board(name) for name in board_names()]
    return tuple(sorted(loaded, key=lambda board: (board.chip == board.emulator.machine, board.name)))


def _rows() -> Iterator[Row]:
    for board in boards():
        with tempfile.TemporaryDirectory() as folder:
            row = Row((*static_cells(board), *measured_cells(board, Path(folder))))
        print(row, flush=True)
        yield row


if __name__ == "__main__":
    write_text(DOCUMENT, table(_rows()))
