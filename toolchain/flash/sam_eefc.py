# SPDX-License-Identifier: Apache-2.0
"""EEFC, the flash controller of SAM3X and SAM4S."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from boards.flashing import Flashing, Sector
from toolchain.flash.errors import FlashError
from toolchain.flash.sam_controller import await_bits, put_words, refuse
from toolchain.flash.samba_link import SambaLink


class EefcCommand(IntEnum):
    """SAM3X data sheet, chapter EEFC; ERASE_PAGES is SAM4's."""

    WRITE = 0x01
    ERASE_WRITE = 0x03
    ERASE_ALL = 0x05
    ERASE_PAGES = 0x07
    CLEAR_LOCK = 0x09
    GET_LOCKS = 0x0A
    SET_BIT = 0x0B
    GET_BITS = 0x0D


EEFC, PLANE_STEP, EEFC_KEY = 0x400E0A00, 0x200, 0x5A000000
FMR, FCR, FSR, FRR = 0x0, 0x4, 0x8, 0xC
READY, COMMAND_ERROR, LOCK_ERROR = 0x1, 0x2, 0x4
WAIT_STATES = 0x600
"""SAM3X errata: six while writing."""
RESET_KEY = 0xA500000D
SIZES = {1: 8, 2: 16, 3: 32, 5: 64, 7: 128, 9: 256, 10: 512, 12: 1024, 14: 2048}
"""CHIPID_CIDR.NVPSIZ to KB."""
BOOT_BIT = 1
"""GPNVM bit 1: boot from flash instead of ROM."""
ERASED_AT_ONCE = {4: 0, 8: 1, 16: 2, 32: 3}
"""Pages to the low bits of ERASE_PAGES' argument."""
LOCK_REGION = {256: 16384, 512: 8192}
"""Bytes by page size: SAM3X, SAM4S."""


class Eefc:
    """See Controller. Lock bits are read as words of 32, in order."""

    def __init__(self, link: SambaLink, flashing: Flashing, chip_id: int, page: int, planes: int, reset: int) -> None:
        self.page, self.reset = page, (reset, RESET_KEY)
        self._link, self._origin = link, flashing.origin
        self._bytes = SIZES.get(chip_id >> 8 & 15, 0) * 1024
        if not self._bytes:
            raise FlashError("the chip states no size of its flash", where=link.name, got=f"id {chip_id:#x}")
        self._plane = self._bytes // planes
        self._by_page = flashing.sectors[0].size == page
        self._controllers = [EEFC + PLANE_STEP * i for i in range(planes)]
        for at in self._controllers:
            link.set_surely(at + FMR, WAIT_STATES)

    def flash_end(self) -> int:
        return self._origin + self._bytes

    def secured(self) -> bool:
        return bool(self._bits() & 1)

    def locked(self, sectors: Sequence[Sector]) -> bool:
        return bool(self._locks(sectors))

    def unlock(self, sectors: Sequence[Sector]) -> None:
        for address in self._locks(sectors):
            self._command(address, EefcCommand.CLEAR_LOCK, self._number(address))

    def erase(self, sector: Sector) -> None:
        if not self._by_page:
            code = ERASED_AT_ONCE.get(sector.size // self.page)
            if code is None:
                raise FlashError("this controller does not erase so many pages at once", got=f"{sector.size} bytes")
            self._command(sector.address, EefcCommand.ERASE_PAGES, self._number(sector.address) | code)

    def erase_all(self) -> None:
        if self._by_page:
            for plane in range(len(self._controllers)):
                self._command(self._origin + plane * self._plane, EefcCommand.ERASE_ALL, 0)

    def write(self, address: int, page: bytes) -> None:
        put_words(self._link, address, page)
        command = EefcCommand.ERASE_WRITE if self._by_page else EefcCommand.WRITE
        self._command(address, command, self._number(address))

    def boot_from_flash(self) -> None:
        if not self._bits() >> BOOT_BIT & 1:
            self._command(self._origin, EefcCommand.SET_BIT, BOOT_BIT)

    def _bits(self) -> int:
        """GPNVM: bit 0 is security."""
        self._command(self._origin, EefcCommand.GET_BITS, 0)
        return self._link.word(EEFC + FRR)

    def _locks(self, sectors: Sequence[Sector]) -> list[int]:
        """Where the locked regions begin that hold any of the sectors."""
        region = LOCK_REGION[self.page]
        found = []
        for plane, at in enumerate(self._controllers):
            start = self._origin + plane * self._plane
            self._command(start, EefcCommand.GET_LOCKS, 0)
            for word in range(-(-self._plane // region // 32)):
                bits = self._link.word(at + FRR)
                found += [start + (32 * word + i) * region for i in range(32) if bits >> i & 1]
        return [at for at in found if any(at < s.end and s.address < at + region for s in sectors)]

    def _number(self, address: int) -> int:
        """The page, in its plane."""
        return (address - self._origin) % self._plane // self.page

    def _command(self, address: int, command: EefcCommand, argument: int) -> None:
        at = self._controllers[(address - self._origin) // self._plane]
        self._link.set_word(at + FCR, EEFC_KEY | argument << 8 | command)
        found = await_bits(self._link, at + FSR, READY)
        if found & (COMMAND_ERROR | LOCK_ERROR):
            refuse(bool(found & LOCK_ERROR), f"command {command:#04x}", found)
