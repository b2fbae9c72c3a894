# SPDX-License-Identifier: Apache-2.0
"""Where an image is linked to run: the board itself, or its twin in the emulator."""

from __future__ import annotations

from dataclasses import dataclass

from boards.board import Board, Console, Memory, MemoryKind


@dataclass(frozen=True)
class Site:
    """Memories, console and clock of one link. `file` is the stem of the ELF file's name; `clock_hz` in Hz."""

    file: str
    board: Board
    memories: tuple[Memory, ...]
    console: Console
    clock_hz: int
    twin: bool

    @property
    def flash(self) -> Memory:
        """The first flash region."""
        return next(m for m in self.memories if m.kind is MemoryKind.FLASH)

    @property
    def banks(self) -> tuple[Memory, ...]:
        """The RAM banks; stack and data are in the first."""
        return tuple(m for m in self.memories if m.kind is MemoryKind.RAM)

    @property
    def emulated(self) -> bool:
        """Whether only an emulator ever runs this image: the twin of a board, or an emulated machine's own."""
        return self.twin or self.board.chip == self.board.emulator.machine

    @property
    def boot2(self) -> bool:
        """Whether a second-stage boot loader precedes the vectors."""
        return self.board.image == "rp2040" and not self.twin


def board_site(board: Board) -> Site:
    """The board itself; where QEMU models the very board, it runs this image too."""
    return Site("firmware", board, board.memories, board.console, board.clock_hz, False)


def twin_site(board: Board) -> Site:
    """The emulator's machine with the board's memory sizes."""
    emulator = board.emulator
    return Site("emulator", board, emulator.memories, emulator.console, emulator.clock_hz, True)
