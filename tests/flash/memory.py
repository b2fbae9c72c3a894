# SPDX-License-Identifier: Apache-2.0
"""The flash of an emulated chip: erased to ones, programmed once, by whole words."""

from __future__ import annotations

from dataclasses import dataclass, field

from boards.flashing import Flashing


@dataclass
class Flash:
    """`ignores`: writes and erasures are acknowledged and not done. `stuck`: a bit of this offset never changes."""

    flashing: Flashing
    ignores: bool = False
    stuck: int | None = None
    data: bytearray = field(init=False)
    erased: list[int] = field(default_factory=list)
    """Numbers of the sectors that were erased, in order."""
    overwritten: list[int] = field(default_factory=list)
    """Addresses that were programmed without being erased."""

    def __post_init__(self) -> None:
        self.data = bytearray((7 * i + (i >> 8)) & 0xFF for i in range(self.flashing.end - self.flashing.origin))

    def holds(self, address: int, size: int) -> bool:
        return self.flashing.origin <= address and address + size <= self.flashing.end

    def read(self, address: int, size: int) -> bytes:
        at = address - self.flashing.origin
        return bytes(self.data[at : at + size])

    def erase(self, number: int) -> None:
        sector = self.flashing.sectors[number]
        self.erased.append(number)
        if not self.ignores:
            at = sector.address - self.flashing.origin
            self.data[at : at + sector.size] = b"\xff" * sector.size

    def program(self, address: int, data: bytes) -> None:
        """Bits can only be cleared; a word that is not erased keeps what it held."""
        if self.ignores:
            return
        word, at = self.flashing.word, address - self.flashing.origin
        for i in range(0, len(data), word):
            part = data[i : i + word]
            held = self.data[at + i : at + i + len(part)]
            if held != b"\xff" * len(part) and held != part:
                self.overwritten.append(address + i)
                continue
            self.data[at + i : at + i + len(part)] = part
        if self.stuck is not None and at <= self.stuck < at + len(data):
            self.data[self.stuck] ^= 0x10
