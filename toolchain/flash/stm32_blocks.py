# SPDX-License-Identifier: Apache-2.0
"""Blocks of memory through ST's boot loader (AN3155, 3.4 and 3.6), as it surely is on a disturbed line.

Data that is read has no checksum: once anything was disturbed, every block is read until two readings agree.
"""

from __future__ import annotations

from toolchain.elf.file import ERASED
from toolchain.flash.errors import Damaged, Garbage, NoAnswer, Refused
from toolchain.flash.stm32_wire import TRIES, Command, Wire, address_phase, checked, complemented


class Blocks:
    """Reads and writes of one block, as long as the line's pace allows."""

    def __init__(self, wire: Wire) -> None:
        self._wire, self._pace = wire, wire.pace

    def read(self, address: int, size: int) -> bytes:
        """One command, not repeated; up to 256 bytes."""
        self._wire.command(Command.READ)
        self._wire.phase(address_phase(address))
        self._wire.phase(complemented(size - 1))
        return self._wire.take(size)

    def read_some(self, address: int, limit: int) -> bytes:
        """A block, up to `limit` bytes; a smaller one where the line is disturbed."""
        for attempt in range(2 * TRIES):
            try:
                found = self.read(address, min(self._pace.size, limit))
            except (NoAnswer, Garbage, Refused):
                if attempt == 2 * TRIES - 1:
                    raise
                self._pace.shrink()
                self._wire.recover()
            else:
                self._pace.went_well()
                return found
        raise AssertionError("the last attempt returns or raises")

    def read_surely(self, address: int, wanted: bytes) -> bytes:
        """A block as it is in flash: a difference is read again, and on a disturbed line everything is."""
        found = self.read_some(address, len(wanted))
        if found == wanted[: len(found)] and not self._pace.disturbed:
            return found
        for _ in range(4 * TRIES):
            again = self.read_some(address, len(found))
            if again == found[: len(again)]:
                return again
            self._pace.shrink()
            found = again[: self._pace.size]
        raise Garbage("two readings of the flash never agree: the line is disturbed", where=self._wire.name)

    def write_some(self, address: int, data: bytes) -> int:
        """Writes a block; returns its size, or 0 where it surely did not get into the flash. Up to the data nothing
        happens there, and a refusal of the data leaves it alone too; after silence, what the block holds decides."""
        self._wire.reliably(lambda: self._open_write(address), protected="write")
        block = data[: self._pace.size]
        try:
            self._wire.phase(checked(bytes((len(block) - 1,)) + block))
        except Refused:
            self._pace.shrink()
            return 0
        except (NoAnswer, Garbage) as error:
            self._pace.shrink()
            self._wire.recover()
            found = b""
            while len(found) < len(block):
                found += self.read_surely(address + len(found), block[len(found) :])
            if found == block:
                return len(block)
            if found.strip(ERASED):
                raise Damaged(address) from error
            return 0
        self._pace.went_well()
        return len(block)

    def _open_write(self, address: int) -> None:
        self._wire.command(Command.WRITE)
        self._wire.phase(address_phase(address))
