# SPDX-License-Identifier: Apache-2.0
"""What each flash controller behind SAM-BA offers: it is worked by its registers.

Flash is written by whole words into a page buffer at the page's own address, then by a command.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NoReturn, Protocol

from boards.flashing import Sector
from toolchain.flash.errors import FlashError, Protected, Refused
from toolchain.flash.samba_link import SambaLink

READY_S = 10.0


class Controller(Protocol):
    """`reset` is the register and the value that restart the chip; `page` the bytes that are written at once."""

    reset: tuple[int, int]
    page: int

    def flash_end(self) -> int:
        """The first address behind the chip's flash."""
        ...

    def secured(self) -> bool:
        """Whether debug probes are shut out. The monitor still works, and could not undo it."""
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
