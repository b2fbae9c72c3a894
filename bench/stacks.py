# SPDX-License-Identifier: Apache-2.0
"""The stack's bound beside what images really use: `python -m bench.stacks [BOARD ...]`, all boards without.

Each network that fits is built, and runs its self-test and an inference under the emulator, then again with a fault at
its deepest place. Exit code 1 where the bound is exceeded, or is more than a quarter above.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from boards.board import Board, Core
from boards.loader import board_names, load_board
from compiler.artifact import CompiledModel
from compiler.compile import compile_model
from compiler.model import Model
from compiler.settings import Settings
from qemu.depth import Depth, measure_depth
from toolchain.firmware import build_firmware
from toolchain.fit import DoesNotFit
from toolchain.options import FirmwareOptions
from toolchain.report.columns import Column
from toolchain.report.terminal import Terminal
from toolchain.request import ROOT
from toolchain.target import settings_of, target_of

MOST = 1.25
"""The bound, over what was used."""
SECONDS = 300.0
COMMANDS = ("test", "infer 1 0")


@dataclass(frozen=True)
class Stack:
    """The stack of one image, in bytes; `path` is the bound's deepest path."""

    board: str
    network: str
    depth: Depth
    bound: int
    path: str

    @property
    def ratio(self) -> float:
        return self.bound / self.depth.with_fault

    @property
    def is_tight(self) -> bool:
        return 1 <= self.ratio <= MOST


def measure(board: Board, compiled: CompiledModel, folder: Path) -> Stack:
    """Builds and runs. DoesNotFit, and what QEMU and the console raise."""
    result = build_firmware(board, compiled, folder, FirmwareOptions())
    bound = result.twin_stack or result.stack
    depth = measure_depth(board.emulator, result.runs, COMMANDS, SECONDS)
    return Stack(board.name, compiled.name, depth, bound.bytes, " > ".join(name for name, _ in bound.path))


def stacks(boards: Iterable[Board], networks: Iterable[Path]) -> Iterator[Stack]:
    """Of every network on every board that takes it."""
    for board in boards:
        for network in networks:
            with tempfile.TemporaryDirectory(prefix="tinykiln-") as folder, suppress(DoesNotFit):
                yield measure(board, _compiled(board.core, network, settings_of(board)), Path(folder))


@cache
def _compiled(core: Core, path: Path, settings: Settings) -> CompiledModel:
    """Once for all boards of a core with as much flash."""
    return compile_model(Model(path.name, path.read_bytes()), target_of(core), settings=settings)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("board", nargs="*", choices=[*board_names(), []])
    parser.add_argument("--model", type=Path, action="append", help="a .tflite file; all in models/ without")
    arguments = parser.parse_args()
    terminal, rows, loose = Terminal(), [], 0
    networks = arguments.model or sorted((ROOT / "models").glob("*.tflite"))
    for stack in stacks(map(load_board, arguments.board or board_names()), networks):
        terminal.stage(stack.board, f"{stack.network}: {stack.ratio:.3f}, {stack.path}")
        depth = stack.depth
        rows.append((stack.board, stack.network, depth.program, depth.with_fault, stack.bound, f"{stack.ratio:.3f}"))
        loose += not stack.is_tight
    numbers = ("painted", "with a fault", "bound", "ratio")
    terminal.table((Column("board"), Column("network"), *(Column(name, number=True) for name in numbers)), rows)
    return 1 if loose else 0


if __name__ == "__main__":
    sys.exit(main())
