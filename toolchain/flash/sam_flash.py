# SPDX-License-Identifier: Apache-2.0
"""The flash controllers behind SAM-BA, by their registers: NVMCTRL of SAMD21 and SAMD51, EEFC of SAM3X and SAM4S.

Flash is written by whole words into a page buffer at the page's own address, then by a command.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NoReturn, Protocol

from boards.flashing import Flashing, Sector
from toolchain.flash.errors import FlashError, Protected, Refused
from toolchain.flash.samba_link import SambaLink

READY_S = 10.0
CPUID, DEVICE_ID, CHIP_IDS = 0xE000ED00, 0x41002018, (0x400E0740, 0x400E0940)
"""Arm's CPUID; DSU.DID; CHIPID_CIDR of SAM3X and SAM4S."""
DEVICE_MASK, CHIP_MASK = 0xFFFF00FF, 0x7FFFFFE0
"""Without die, revision and version."""
CORTEX_M0PLUS, CORTEX_M4 = 0xC600, 0xC240
ROM = 0x008
"""Where the ROM's reset vector points, in megabytes, on SAM4."""


class Controller(Protocol):
    """`reset` is the register and the value that restart the chip; `page` the bytes that are written at once."""

    reset: tuple[int, int]
    page: int

    def flash_end(self) -> int:
        """The first address behind the chip's flash."""
        ...

    def locked(self, sectors: Sequence[Sector]) -> bool: ...

    def unlock(self, sectors: Sequence[Sector]) -> None: ...

    def erase(self, sector: Sector) -> None:
        """Does nothing where writing a page erases it."""
        ...

    def erase_all(self) -> None:
        """For controllers that erase a page by writing it, and else only everything."""
        ...

    def write(self, address: int, page: bytes) -> None: ...

    def boot_from_flash(self) -> None:
        """Where the ROM's monitor would come again after a reset."""
        ...


def identify(link: SambaLink) -> int:
    """The chip, by registers that all with its core have: what lacks one would hang."""
    core = link.word(CPUID) & 0xFFF0
    if core == CORTEX_M0PLUS or (core == CORTEX_M4 and link.word(4) >> 20 != ROM):
        return link.word(DEVICE_ID) & DEVICE_MASK
    return next((found for at in CHIP_IDS if (found := link.word(at))), 0) & CHIP_MASK


def controller_of(chip_id: int, link: SambaLink, flashing: Flashing) -> Controller | None:
    """By the chip's series; None for one that is not known."""
    series, architecture = chip_id >> 16, chip_id >> 20 & 0xFF
    if series == 0x1001:
        return Nvm(link, NVM_D21)
    if series in (0x6006, 0x6181, 0x6183, 0x6184):
        return Nvm(link, NVM_D51)
    if architecture in (0x84, 0x85, 0x86):
        return Eefc(link, flashing, chip_id, page=256, planes=2, reset=0x400E1A00)
    if architecture in (0x88, 0x89, 0x8A):
        return Eefc(link, flashing, chip_id, page=512, planes=1, reset=0x400E1400)
    return None


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


NVM_D21 = NvmKind(
    control=(0x04, 0, 0x40080), command=0x00, flags=0x14, errors=0x2, ready=0x1, address=0x1C, unit=2, lock=0x20,
    regions=16, erase=0x02, write=0x04, clear_buffer=0x44, unlock=0x41, lock_error=0x8, status=0x18,
)  # fmt: skip
"""SAM D21 data sheet, chapter NVMCTRL."""
NVM_D51 = NvmKind(
    control=(0x00, 0x30, 0xC000), command=0x04, flags=0x10, errors=0xCE, ready=0x10000, address=0x14, unit=1, lock=0x18,
    regions=32, erase=0x01, write=0x03, clear_buffer=0x15, unlock=0x12, lock_error=0x8, status=0x10,
)  # fmt: skip
"""SAM D5x/E5x data sheet, chapter NVMCTRL. STATUS is the upper half of the word with INTFLAG."""
NVM, PARAM, KEY, STATUS_ERRORS = 0x41004000, 0x08, 0xA500, 0x1C


class Nvm:
    """See Controller."""

    reset = (0xE000ED0C, 0x05FA0004)

    def __init__(self, link: SambaLink, kind: NvmKind) -> None:
        self._link, self._kind = link, kind
        parameters = link.word(NVM + PARAM)
        self.page = 8 << (parameters >> 16 & 7)
        self._bytes = (parameters & 0xFFFF) * self.page
        self._clear()

    def flash_end(self) -> int:
        return self._bytes

    def locked(self, sectors: Sequence[Sector]) -> bool:
        locks = self._link.word(NVM + self._kind.lock)
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
        self._plane = self._bytes // planes
        self._by_page = flashing.sectors[0].size == page
        self._controllers = [EEFC + PLANE_STEP * i for i in range(planes)]
        for at in self._controllers:
            link.set_surely(at + FMR, WAIT_STATES)

    def flash_end(self) -> int:
        return self._origin + self._bytes

    def locked(self, sectors: Sequence[Sector]) -> bool:
        return bool(self._locks(sectors))

    def unlock(self, sectors: Sequence[Sector]) -> None:
        for address in self._locks(sectors):
            self._command(address, EefcCommand.CLEAR_LOCK, self._number(address))

    def erase(self, sector: Sector) -> None:
        if not self._by_page:
            code = ERASED_AT_ONCE[sector.size // self.page]
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
        self._command(self._origin, EefcCommand.GET_BITS, 0)
        if not self._link.word(EEFC + FRR) >> BOOT_BIT & 1:
            self._command(self._origin, EefcCommand.SET_BIT, BOOT_BIT)

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


def put_words(link: SambaLink, address: int, page: bytes) -> None:
    """Flash takes whole words; the monitor's block commands write bytes."""
    for at in range(0, len(page), 4):
        link.set_word(address + at, int.from_bytes(page[at : at + 4], "little"))


def await_bits(link: SambaLink, address: int, bits: int) -> int:
    """The register, once these bits are set. FlashError where they never are."""
    end = time.monotonic() + READY_S
    while not (found := link.word(address)) & bits:
        if time.monotonic() > end:
            raise FlashError("the flash controller is never ready", got=f"{found:#x} at {address:#x}")
    return found


def refuse(locked: bool, what: str, found: int) -> NoReturn:
    if locked:
        raise Protected("the flash is locked", got=what, hint="unprotect=yes unlocks its regions")
    raise Refused("the flash controller refuses", got=f"{what}: {found:#x}")
