# SPDX-License-Identifier: Apache-2.0
"""How deep the stack really got: paint it before the first instruction, look afterwards which paint is left.

The firmware is not changed for it; its own start-up paints too, so that the console can tell on a device, and whoever
measures here passes the same paint. A frame that is reserved but never written to does not show.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from qemu.machine import Emulation
from qemu.symbols import Symbols

PAINT = 0xC5C5C5C5
"""What the firmware's start-up paints with, too."""


@dataclass(frozen=True)
class StackRegion:
    """The reserved stack, [limit, top), which grows down from `top`."""

    limit: int
    top: int

    @classmethod
    def of(cls, elf: Path) -> StackRegion:
        """By the linker script's `__stack_limit` and `__stack_top`."""
        symbols = Symbols(elf)
        return cls(symbols["__stack_limit"].address, symbols["__stack_top"].address)

    @property
    def size(self) -> int:
        return self.top - self.limit

    def paint(self, emulation: Emulation, paint: int = PAINT) -> None:
        """Before `resume`."""
        emulation.write_memory(self.limit, paint.to_bytes(4, "little") * (self.size // 4))

    def high_water(self, emulation: Emulation, paint: int = PAINT) -> int:
        """Bytes of stack that were written since; stops the guest."""
        return used_bytes(emulation.read_memory(self.limit, self.size), paint)


def used_bytes(image: bytes, paint: int = PAINT) -> int:
    """Of a painted stack, lowest address first, in whole words: from the lowest that is not paint up to the top."""
    word = paint.to_bytes(4, "little")
    return len(image) - next((at for at in range(0, len(image), 4) if image[at : at + 4] != word), len(image))
