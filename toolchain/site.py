# SPDX-License-Identifier: Apache-2.0
"""Where an image is linked to run: the board itself, or its twin in the emulator."""

from __future__ import annotations

from dataclasses import dataclass

from boards.board import Board, Console, Memory, MemoryKind
from compiler.errors import UserError


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
    def constants(self) -> Memory:
        """Where constants and initial values are stored: in flash, unless code memory cannot be read as data."""
        return next((m for m in self.memories if m.kind is MemoryKind.CONSTANTS), self.flash)

    @property
    def banks(self) -> tuple[Memory, ...]:
        """The RAM banks; stack and data are in the first."""
        return tuple(m for m in self.memories if m.kind is MemoryKind.RAM)

    def arena_banks(self, name: str) -> tuple[Memory, ...]:
        """Where an arena may lie: in the bank of that name, or, without a name, in the board's order. UserError for a
        bank that the board does not have."""
        named = {bank.name: bank for bank in self.banks}
        if name and name not in named:
            raise UserError(
                f"{self.board.name} has no such RAM bank",
                where="arena=",
                got=name,
                allowed=", ".join(f"{bank.name} ({bank.size} bytes)" for bank in self.banks),
            )
        return tuple(named[chosen] for chosen in ((name,) if name else self.board.arena_banks))

    @property
    def emulated(self) -> bool:
        """Whether only an emulator ever runs this image: the twin of a board, or an emulated machine's own."""
        return self.twin or self.board.chip == self.board.emulator.machine


def board_site(board: Board, clock: str = "reset") -> Site:
    """The board itself, run at one of its clocks; where QEMU models the very board, it runs this image too.

    UserError for a clock that the board's data does not have.
    """
    chosen = next((known for known in board.clocks if known.name == clock), None)
    if chosen is None:
        raise UserError(
            f"{board.name} has no such clock",
            where="clock=",
            got=clock,
            allowed=", ".join(f"{known.name} ({known.hz / 1e6:g} MHz)" for known in board.clocks),
        )
    return Site("firmware", board, board.memories, chosen.console, chosen.hz, False)


def twin_site(board: Board) -> Site:
    """The emulator's machine with the board's memory sizes."""
    emulator = board.emulator
    return Site("emulator", board, emulator.memories, emulator.console, emulator.clock_hz, True)
