# SPDX-License-Identifier: Apache-2.0
"""ST's USART boot loader: AN3155 (protocol), AN2606 (ids). GigaDevice's is the same; Puya's PY32 is a variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from boards.flashing import Flashing, Sector
from toolchain.flash.agreement import compare
from toolchain.flash.errors import Damaged, Garbage, Protected, Refused
from toolchain.flash.port import Line, Port
from toolchain.flash.protocol import Identity, Proof, Step
from toolchain.flash.stm32_blocks import Blocks
from toolchain.flash.stm32_wire import RESET_S, TRIES, Command, Pace, Wire, address_phase, checked

MASS_ERASE = 0xFFFF
SMALLEST_BLOCK = 16
SECTOR_S = 5.0
"""Of stm32flash too; a 128 KB sector takes up to 4 s."""
SECTORS_AT_ONCE = 32
ERASE_FLOODS = 300
"""A page count that lost its first byte makes the loader wait for 16 KB."""


@dataclass(frozen=True)
class Variant:
    block: int
    pages: bool
    """Whether single pages can be erased."""


VARIANTS = {"stm32": Variant(256, True), "py32": Variant(128, False)}


class Stm32:
    """See BootLoader."""

    proof = Proof.READ_BACK
    erases = True

    def __init__(self, port: Port, flashing: Flashing, baud: int, patience: float) -> None:
        self.line = Line(baud, "E")
        self._flashing = flashing
        self._variant = VARIANTS.get(flashing.protocol, VARIANTS["stm32"])
        pace = Pace(max(SMALLEST_BLOCK, flashing.word), self._variant.block)
        self._wire = Wire(port, patience, flashing.enter, pace)
        self._blocks = Blocks(self._wire)
        self.from_start = not self._variant.pages
        self._commands: frozenset[int] = frozenset()

    def connect(self) -> Identity:
        self._wire.sync()
        listed = self._wire.twice(self._get)
        self._commands = frozenset(listed[1:])
        version = f"{listed[0] >> 4}.{listed[0] & 15}"
        chip_id = self._wire.twice(self._get_id)
        protected = not self._readable()
        size = None if protected else self._flash_bytes()
        return Identity(f"USART boot loader {version}", chip_id, 0, size, protected)

    def read(self, address: int, size: int) -> bytes | None:
        found = b""
        try:
            while len(found) < size:
                found += self._blocks.read_some(address + len(found), size - len(found))
        except Refused:
            return None
        return found

    def unprotect(self) -> None:
        """AN3155, 3.9 and 3.11: both reset the chip; readout unprotection wipes it first."""
        self._wire.command(Command.WRITE_UNPROTECT if self._readable() else Command.READOUT_UNPROTECT)
        self._wire.expect_ack(RESET_S)
        self._wire.sync_after_reset()
        if not self._readable():
            raise Protected("the chip is still protected after it was told to unprotect", where=self._wire.name)

    def erase(self, sectors: Sequence[Sector], step: Step) -> None:
        if not self._variant.pages:
            self._wire.reliably(self._erase_all, protected="erase")
            step(sum(s.size for s in sectors))
            return
        done = 0
        for at in range(0, len(sectors), SECTORS_AT_ONCE):
            part = sectors[at : at + SECTORS_AT_ONCE]
            self._wire.reliably(lambda part=part: self._erase(part), protected="erase", floods=ERASE_FLOODS)  # type: ignore[misc]
            done += sum(s.size for s in part)
            step(done)

    def write(self, address: int, data: bytes, step: Step) -> None:
        at = failures = 0
        while at < len(data):
            done = self._blocks.write_some(address + at, data[at:])
            failures = 0 if done else failures + 1
            if failures == 2 * TRIES:
                raise Damaged(address + at)
            at += done
            step(at)

    def verify(self, address: int, data: bytes, step: Step) -> None:
        at = 0
        while at < len(data):
            found = self._blocks.read_surely(address + at, data[at:])
            wanted = data[at : at + len(found)]
            compare(address + at, wanted, found)
            at += len(found)
            step(at)

    def start(self, address: int) -> bool:
        """AN3155, 3.5. Not repeated: a lost answer may mean that the application runs already."""
        self._wire.command(Command.GO)
        self._wire.phase(address_phase(address))
        return True

    def _get(self) -> bytes:
        """Version and commands. AN3155, 3.1."""
        self._wire.command(Command.GET)
        count = self._wire.take(1)[0] + 1
        if not 2 <= count <= 32:
            raise Garbage("the boot loader's list of commands is disturbed", where=self._wire.name)
        listed = self._wire.take(count)
        self._wire.expect_ack()
        return listed

    def _get_id(self) -> int:
        """AN3155, 3.3."""
        self._wire.command(Command.GET_ID)
        count = self._wire.take(1)[0]
        if count != 1:
            raise Garbage("the boot loader's chip id is disturbed", where=self._wire.name, got=f"{count + 1} bytes")
        chip_id = int.from_bytes(self._wire.take(2), "big")
        self._wire.expect_ack()
        return chip_id

    def _readable(self) -> bool:
        """AN3155, 3.4: with readout protection the command itself is refused."""
        try:
            self._wire.reliably(lambda: self._blocks.read(self._flashing.origin, 4))
        except Refused:
            return False
        return True

    def _flash_bytes(self) -> int | None:
        """From the chip's size register; by a whole block where the loader refuses less (F4, L0)."""
        at = self._flashing.size_at
        if not at:
            return None
        block = self.read(at & ~3, 4)
        offset = at & 3
        if block is None:
            block, offset = self.read(at & ~0xFF, 256), at & 0xFF
        if block is None:
            return None
        kilobytes = int.from_bytes(block[offset : offset + 2], "little")
        return kilobytes * 1024 if 0 < kilobytes < 0xFFFF else None

    def _erase(self, sectors: Sequence[Sector]) -> None:
        """AN3155, 3.7 and 3.8."""
        wait_s = SECTOR_S * len(sectors)
        if Command.EXTENDED_ERASE in self._commands:
            self._wire.command(Command.EXTENDED_ERASE)
            numbers = b"".join(s.number.to_bytes(2, "big") for s in sectors)
            self._wire.phase(checked((len(sectors) - 1).to_bytes(2, "big") + numbers), wait_s)
        else:
            self._wire.command(Command.ERASE)
            self._wire.phase(checked(bytes((len(sectors) - 1, *(s.number for s in sectors)))), wait_s)

    def _erase_all(self) -> None:
        self._wire.command(Command.EXTENDED_ERASE)
        self._wire.phase(checked(MASS_ERASE.to_bytes(2, "big")), RESET_S)


def make(port: Port, flashing: Flashing, baud: int, patience: float) -> Stm32:
    """See protocol.Maker."""
    return Stm32(port, flashing, baud, patience)
