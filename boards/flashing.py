# SPDX-License-Identifier: Apache-2.0
"""How a chip takes its program over serial: the `[flash]` table of boards/chips/<chip>.toml, or of boards/<board>.toml
where the board has a boot loader of its own in the chip's flash: code is then linked for these sectors.

`sectors` are runs such as "4x16K", from `origin` on, as the reference manual's flash organisation has them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from boards.schema import Table
from compiler.errors import UserError

PROTOCOLS = (
    "stm32", "py32", "wch", "esp32", "lpc", "lpc8xx", "samba", "smp", "nordic_dfu", "xmodem", "ymodem", "uf2",
)  # fmt: skip
"""Names of toolchain/flash/<protocol>.py; py32 is a variant of stm32, lpc8xx of lpc."""
_RUN = re.compile(r"(\d+)x(\d+)(K?)")


@dataclass(frozen=True)
class Sector:
    """The smallest part of flash that is erased at once. `number` is what the boot loader calls it."""

    number: int
    address: int
    size: int

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.address + self.size


@dataclass(frozen=True)
class Flashing:
    """Addresses in bytes, as programmers use them (`origin` may differ from where the code runs).

    `chip_ids` are what the boot loader may answer; empty: it has no way to tell. `family` is a device type that some
    loaders send along (WCH) or want to be told (Nordic), 0 where there is none. `word` is the size that writes are
    padded to. `size_at` is where the chip keeps its flash size in KB, 16 bits; 0: nowhere that the loader can read.
    `buffer` is RAM that the loader leaves to data on its way into flash, for the loaders that ask for such an address.
    """

    protocol: str
    origin: int
    sectors: tuple[Sector, ...]
    chip_ids: tuple[int, ...] = ()
    family: int = 0
    word: int = 4
    size_at: int = 0
    buffer: int = 0
    baud: int = 115200
    enter: str = ""
    """What a person has to do for the boot loader to run."""

    @property
    def end(self) -> int:
        """The first address behind the last sector."""
        return self.sectors[-1].end if self.sectors else self.origin

    def touched(self, address: int, size: int) -> tuple[Sector, ...]:
        """The sectors that hold any of `size` bytes at `address`."""
        return tuple(s for s in self.sectors if s.address < address + size and address < s.end)


def read_flashing(owner: Table, size: int = 0) -> Flashing | None:
    """The `[flash]` table of a chip or board; None where it has none. The sectors must cover `size` bytes, the flash
    that code is linked for. UserError for a fault in the data."""
    if "flash" not in owner:
        return None
    table = owner.table("flash")
    origin = table.integer("origin")
    flashing = Flashing(
        protocol=table.text("protocol", allowed=PROTOCOLS),
        origin=origin,
        sectors=parse_sectors(table.texts("sectors"), origin, table.where),
        chip_ids=table.integers("chip_ids", ()),
        family=table.integer("family", 0, high=0xFF),
        word=table.integer("word", 4, low=1, high=512),
        size_at=table.integer("size_at", 0),
        buffer=table.integer("buffer", 0),
        baud=table.integer("baud", 115200, low=1),
        enter=table.text("enter", ""),
    )
    table.close()
    if flashing.end - origin < size:
        raise UserError(
            "the sectors do not cover the flash",
            where=table.where,
            got=f"{flashing.end - origin} bytes in {len(flashing.sectors)} sectors",
            allowed=f"{size} bytes or more",
        )
    return flashing


def parse_sectors(runs: tuple[str, ...], origin: int, where: str) -> tuple[Sector, ...]:
    """Runs of equal sectors to sectors. UserError for text that is no run."""
    found: list[Sector] = []
    address = origin
    for run in runs:
        match = _RUN.fullmatch(run)
        count, size = (int(match[1]), int(match[2]) * (1024 if match[3] else 1)) if match else (0, 0)
        if not count or not size:
            raise UserError("not a run of sectors", where=where, got=run, allowed='"COUNTxSIZE" or "COUNTxSIZEK"')
        for _ in range(count):
            found.append(Sector(len(found), address, size))
            address += size
    return tuple(found)
