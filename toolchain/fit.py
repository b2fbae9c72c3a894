# SPDX-License-Identifier: Apache-2.0
"""What to tell a user whose model does not fit."""

from __future__ import annotations

from dataclasses import dataclass

from boards.board import Board, Memory, MemoryKind
from compiler.errors import UserError
from toolchain.bundle import Bundle
from toolchain.options import FirmwareOptions
from toolchain.site import Site

CONSOLE_BYTES = 3000
"""Leaving the console out saves less, of flash and of RAM."""
COMPACT_FLASH, COMPACT_RAM = 1000, 200
"""The compact console saves about as much."""


@dataclass(frozen=True)
class Overflow:
    """A region of the memory map and how many bytes too many it was asked to hold."""

    region: str
    bytes: int


class DoesNotFit(UserError):
    """The image does not fit: every region at fault, and the smallest board that has the memory.

    `flash_bytes` and `ram_bytes` are how many bytes too many there are of each kind, `overflows` of each region.
    """

    def __init__(self, site: Site, bundle: Bundle, overflows: tuple[Overflow, ...], options: FirmwareOptions) -> None:
        self.overflows = overflows
        regions = {memory.name: memory for memory in site.memories}
        lines = [_line(regions[overflow.region], overflow, bundle) for overflow in overflows]
        self.flash_bytes, self.ram_bytes = (
            sum(o.bytes for o in overflows if regions[o.region].kind is kind)
            for kind in (MemoryKind.FLASH, MemoryKind.RAM)
        )
        flash, ram = self.flash_bytes + site.flash.size, self.ram_bytes + site.banks[0].size
        super().__init__(
            f"{bundle.name} does not fit on {site.board.name}",
            where=", ".join(overflow.region for overflow in overflows),
            got="; ".join(lines),
            allowed=", ".join(f"{memory.name} {memory.size} bytes" for memory in site.memories),
            hint=_hint(overflows, flash, ram, site, options),
        )


def _line(memory: Memory, overflow: Overflow, bundle: Bundle) -> str:
    share = f"constants {bundle.constants_bytes}" if memory.kind is MemoryKind.FLASH else f"arena {bundle.arena_bytes}"
    amount = "1 byte" if overflow.bytes == 1 else f"{overflow.bytes} bytes"
    return f"{amount} too many in {memory.name} (of {memory.size}; {share})"


def _hint(overflows: tuple[Overflow, ...], flash: int, ram: int, site: Site, options: FirmwareOptions) -> str:
    ideas, names = [], {overflow.region for overflow in overflows}
    if options.weights == "ram" and names & {bank.name for bank in site.banks}:
        ideas.append("weights=inline leaves the constants in flash")
    if options.arena in names and len(site.banks) > 1:
        ideas.append("without arena= it may go to the other banks, too")
    fitting = [
        other
        for other in options.alternatives
        if other.name != site.board.name and other.flash.size >= flash and max_ram(other) >= ram and is_chip(other)
    ]
    if fitting:
        nearest = min(fitting, key=lambda b: (b.flash.size + max_ram(b), b.name))
        ideas.append(
            f"board={nearest.name} has {nearest.flash.size} bytes of flash and {max_ram(nearest)} bytes of RAM"
        )
    flash_regions = {memory.name for memory in site.memories if memory.kind is not MemoryKind.RAM}
    saved = {o.region: COMPACT_FLASH if o.region in flash_regions else COMPACT_RAM for o in overflows}
    is_full = options.application == "console" and options.benchmark is None and not options.counts_cycles
    if is_full and all(overflow.bytes < saved[overflow.region] for overflow in overflows):
        ideas.append("console=compact has fewer commands")
    if options.talks and all(overflow.bytes < CONSOLE_BYTES for overflow in overflows):
        ideas.append("console=none leaves the console out")
    return "; ".join(ideas) or "a smaller model"


def is_chip(board: Board) -> bool:
    """Whether the board can be held in a hand: emulated machines are named after their chip field."""
    return board.chip != board.emulator.machine


def max_ram(board: Board) -> int:
    """The largest RAM bank, in bytes."""
    return max(memory.size for memory in board.memories if memory.kind is MemoryKind.RAM)
