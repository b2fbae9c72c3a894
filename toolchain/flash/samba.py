# SPDX-License-Identifier: Apache-2.0
"""SAM-BA: the ROM monitor of SAM3X and SAM4S, and Arduino's boot loader of SAMD21 and SAMD51.

What is erased is what is touched: Arduino's own erasing (X) reaches to the end of flash, so the controller is asked row
by row. Arduino's Y writes from RAM, which is checked before by its CRC; elsewhere words go into the page buffer one by
one. The block with the vectors is written last: until then the loader finds no program and stays.
"""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from boards.flashing import Flashing, Sector
from toolchain.flash.agreement import agreed, compare, settled
from toolchain.flash.errors import Damaged, FlashError, Garbage, LinkLost, NoAnswer, Protected, Refused
from toolchain.flash.port import Line, Port
from toolchain.flash.protocol import Identity, Proof, Step
from toolchain.flash.sam_controller import Controller
from toolchain.flash.sam_flash import controller_of, identify
from toolchain.flash.samba_link import SambaLink

T = TypeVar("T")

TRIES = 6
SETTLE_S = 0.1
STAGED_BYTES, READ_BYTES, PACKED_BYTES = 4096, 4000, 4096
"""What is written from RAM at once, in whole pages; what is read at once, and what in whole packets of XMODEM."""
WRITE_BUFFER, CHECKSUM = "Y", "Z"
"""Arduino's extensions."""


class Samba:
    """See BootLoader."""

    proof = Proof.READ_BACK
    from_start = False
    erases = True

    def __init__(self, port: Port, flashing: Flashing, baud: int, patience: float) -> None:
        self.line = Line(baud)
        self._port, self._flashing = port, flashing
        self._link = SambaLink(port, patience, flashing.enter)
        self._extensions = ""
        self._found: Controller | None = None

    def connect(self) -> Identity:
        self._link.synchronize()
        chip_id = self._agreed(lambda: identify(self._link))
        version = self._agreed(self._link.version)
        if "[Arduino:" in version:
            self._extensions = version.split("[Arduino:")[1].split("]")[0]
        self._found = self._reliably(lambda: controller_of(chip_id, self._link, self._flashing))
        loader = f"SAM-BA {version}"
        if self._found is None:
            return Identity(loader, chip_id)
        if self._reliably(self._controller.secured):
            loader += ", security bit set"
        size = self._controller.flash_end() - self._flashing.origin
        locked = self._reliably(lambda: self._controller.locked(self._flashing.sectors))
        return Identity(loader, chip_id, 0, size, locked)

    def read(self, address: int, size: int) -> bytes | None:
        return self._reliably(lambda: self._link.read(address, size))

    def unprotect(self) -> None:
        """Unlocks the regions. That wipes nothing."""
        self._reliably(lambda: self._controller.unlock(self._flashing.sectors))
        if self._reliably(lambda: self._controller.locked(self._flashing.sectors)):
            raise Protected("the flash is still locked after it was unlocked", where=self._port.name)

    def erase(self, sectors: Sequence[Sector], step: Step) -> None:
        """Nothing for chips that erase each page as they write it, unless all is to be erased."""
        if len(sectors) == len(self._flashing.sectors):
            self._reliably(self._controller.erase_all)
        done = 0
        for sector in sectors:
            self._reliably(partial(self._controller.erase, sector))
            done += sector.size
            step(done)

    def write(self, address: int, data: bytes, step: Step) -> None:
        staged = WRITE_BUFFER in self._extensions and self._flashing.buffer
        size = STAGED_BYTES if staged else self._controller.page
        write = self._write_staged if staged else self._controller.write
        starts = range(0, len(data), size)
        done = 0
        for at in (*starts[1:], *starts[:1]):
            block = data[at : at + size]
            try:
                self._reliably(partial(write, address + at, block))
            except Garbage as error:
                raise Damaged(address + at) from error
            done += len(block)
            step(done)

    def verify(self, address: int, data: bytes, step: Step) -> None:
        size = READ_BYTES if self._link.plain else PACKED_BYTES
        for at in range(0, len(data), size):
            wanted = data[at : at + size]
            found = self._read_surely(address + at, wanted)
            compare(address + at, wanted, found)
            step(at + len(wanted))

    def start(self, address: int) -> bool:
        """By a reset; a USB port goes away with it."""
        self._reliably(self._controller.boot_from_flash)
        with suppress(LinkLost):
            self._link.set_word(*self._controller.reset)
            self._port.drain(SETTLE_S)
        return True

    @property
    def _controller(self) -> Controller:
        if self._found is None:
            raise FlashError("the flash of this chip is not known", where=self._port.name)
        return self._found

    def _write_staged(self, address: int, block: bytes) -> None:
        buffer = self._flashing.buffer
        self._link.write(buffer, block)
        if CHECKSUM in self._extensions and self._link.checksum(buffer, len(block)) != crc_hqx(block, 0):
            raise Garbage("the data did not get into RAM whole", where=self._port.name)
        self._link.ask(f"Y{buffer:08X},0")
        self._link.ask(f"Y{address:08X},{len(block):08X}")

    def _read_surely(self, address: int, wanted: bytes) -> bytes:
        """What differs is read again word by word, since some ROMs give zeros for blocks of flash (BOSSA,
        EefcFlash.cpp)."""
        return settled(
            wanted,
            lambda: self._reliably(lambda: self._link.read(address, len(wanted))),
            lambda: b"".join(self._reliably(partial(self._word, address + at)) for at in range(0, len(wanted), 4)),
            self._port.name,
        )

    def _word(self, address: int) -> bytes:
        return self._link.word(address).to_bytes(4, "little")

    def _agreed(self, action: Callable[[], T]) -> T:
        return agreed(lambda: self._reliably(action), self._port.name)

    def _reliably(self, action: Callable[[], T]) -> T:
        for attempt in range(TRIES):
            try:
                return action()
            except (NoAnswer, Garbage, Refused):
                if attempt == TRIES - 1:
                    raise
                self._link.recover()
        raise AssertionError("the last attempt returns or raises")


def make(port: Port, flashing: Flashing, baud: int, patience: float) -> Samba:
    """See protocol.Maker."""
    return Samba(port, flashing, baud, patience)
