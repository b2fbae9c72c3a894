# SPDX-License-Identifier: Apache-2.0
"""NVMCTRL, the flash controller of SAMD21 and SAMD51."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from boards.flashing import Sector
from toolchain.flash.agreement import agreed
from toolchain.flash.errors import FlashError
from toolchain.flash.sam_controller import await_bits, put_words, refuse
from toolchain.flash.samba_link import SambaLink


@dataclass(frozen=True)
class NvmKind:
    """Offsets, commands and bits of an NVMCTRL. `unit` is what the address register counts in."""

    control: tuple[int, int, int]
    """The register that configures, and what is cleared and set in it: pages are written by command, no cache."""
    command: int
    flags: int
    errors: int
    ready: int
    address: int
    unit: int
    lock: int
    regions: int
    erase: int
    write: int
    clear_buffer: int
    unlock: int
    lock_error: int
    status: int
    secured: tuple[int, int]
    """The register with the security bit, and the bit."""


NVM_D21 = NvmKind(
    control=(0x04, 0, 0x40080), command=0x00, flags=0x14, errors=0x2, ready=0x1, address=0x1C, unit=2, lock=0x20,
    regions=16, erase=0x02, write=0x04, clear_buffer=0x44, unlock=0x41, lock_error=0x8, status=0x18,
    secured=(0x41004018, 0x100),
)  # fmt: skip
"""SAM D21 data sheet, chapter NVMCTRL."""
NVM_D51 = NvmKind(
    control=(0x00, 0x30, 0xC000), command=0x04, flags=0x10, errors=0xCE, ready=0x10000, address=0x14, unit=1, lock=0x18,
    regions=32, erase=0x01, write=0x03, clear_buffer=0x15, unlock=0x12, lock_error=0x8, status=0x10,
    secured=(0x41002000, 0x10000),
)  # fmt: skip
"""SAM D5x/E5x data sheet, chapter NVMCTRL. STATUS is the upper half of the word with INTFLAG."""
NVM, PARAM, KEY, STATUS_ERRORS = 0x41004000, 0x08, 0xA500, 0x1C


class Nvm:
    """See Controller."""

    reset = (0xE000ED0C, 0x05FA0004)

    def __init__(self, link: SambaLink, kind: NvmKind) -> None:
        self._link, self._kind = link, kind
        parameters = agreed(lambda: link.word(NVM + PARAM), link.name)
        self.page = 8 << (parameters >> 16 & 7)
        self._bytes = (parameters & 0xFFFF) * self.page
        if not self._bytes:
            raise FlashError("the chip states no size of its flash", where=link.name, got=f"{parameters:#x}")
        self._clear()

    def flash_end(self) -> int:
        return self._bytes

    def secured(self) -> bool:
        register, bit = self._kind.secured
        return bool(self._link.word(register) & bit)

    def locked(self, sectors: Sequence[Sector]) -> bool:
        locks = agreed(lambda: self._link.word(NVM + self._kind.lock), self._link.name)
        return any(not locks >> region & 1 for region in self._regions(sectors))

    def unlock(self, sectors: Sequence[Sector]) -> None:
        """Until the next reset."""
        for region in self._regions(sectors):
            self._at(region * (self._bytes // self._kind.regions))
            self._command(self._kind.unlock)

    def erase(self, sector: Sector) -> None:
        self._at(sector.address)
        self._command(self._kind.erase)

    def erase_all(self) -> None:
        """Sectors are erased one by one."""

    def write(self, address: int, page: bytes) -> None:
        register, clear, bits = self._kind.control
        self._link.set_surely(NVM + register, self._link.word(NVM + register) & ~clear | bits)
        self._command(self._kind.clear_buffer)
        put_words(self._link, address, page)
        self._at(address)
        self._command(self._kind.write)

    def boot_from_flash(self) -> None:
        """There is no ROM."""

    def _regions(self, sectors: Sequence[Sector]) -> range:
        size = self._bytes // self._kind.regions
        return range(sectors[0].address // size, min(-(-sectors[-1].end // size), self._kind.regions))

    def _at(self, address: int) -> None:
        self._link.set_surely(NVM + self._kind.address, address // self._kind.unit)

    def _command(self, code: int) -> None:
        kind = self._kind
        self._link.set_word(NVM + kind.command, KEY | code)
        found = await_bits(self._link, NVM + kind.flags, kind.ready)
        if found & kind.errors:
            status = self._link.word(NVM + kind.status)
            self._clear()
            refuse(bool(status & kind.lock_error), f"command {code:#04x}", found)

    def _clear(self) -> None:
        """Errors stay until they are written."""
        kind = self._kind
        self._link.set_word(NVM + kind.flags, kind.errors)
        if kind.status != kind.flags:
            self._link.set_word(NVM + kind.status, STATUS_ERRORS)
