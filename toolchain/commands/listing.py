# SPDX-License-Identifier: Apache-2.0
"""`boards` and `ops`: what there is."""

from __future__ import annotations

from boards.board import MemoryKind
from boards.loader import board_names, load_board
from compiler.ops import operators
from compiler.ops.definition import rule
from toolchain.report.columns import Column
from toolchain.report.terminal import Terminal
from toolchain.request import HOST, HOST_TARGETS


def list_boards() -> None:
    """Every board: name and aliases, core, memory, and whether QEMU runs its firmware itself or as a twin."""
    rows = []
    for name in board_names():
        board = load_board(name)
        total = {kind: sum(m.size for m in board.memories if m.kind is kind) for kind in MemoryKind}
        rows.append(
            (
                " = ".join((name, *board.aliases)),
                board.core.name,
                f"{total[MemoryKind.FLASH] // 1024} K",
                f"{total[MemoryKind.RAM] // 1024} K",
                "itself" if board.emulator.native else "twin",
                board.description,
            )
        )
    columns = (
        Column("board"),
        Column("core"),
        Column("flash", number=True),
        Column("RAM", number=True),
        Column("QEMU"),
        Column("description", cut=True),
    )
    terminal = Terminal()
    terminal.table(columns, rows)
    terminal.line(f"board={HOST} compiles for this machine: {', '.join(HOST_TARGETS)}")


def list_operators() -> None:
    """Every operator with the rules that a model must keep."""
    terminal = Terminal()
    for name, definition in operators().items():
        terminal.line(name, "bold")
        for constraint in definition.constraints:
            terminal.paragraph(rule(constraint), 4)
