# SPDX-License-Identifier: Apache-2.0
"""How deep the stack really got: paint it before the first instruction, look afterwards which paint is left.

The firmware is not changed for it. A frame that is reserved but never written to does not show.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from qemu.machine import Emulation
from qemu.symbols import Symbols

PAINT = 0xC5


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

    def paint(self, emulation: Emulation) -> None:
        """Before `resume`."""
        emulation.write_memory(self.limit, bytes([PAINT]) * self.size)

    def high_water(self, emulation: Emulation) -> int:
        """Bytes of stack that were written since; stops the guest."""
        return used_bytes(emulation.read_memory(self.limit, self.size))


def used_bytes(image: bytes) -> int:
    """Of a painted stack with its lowest address first: from the lowest byte that is not paint to the top."""
    return len(image) - next((i for i, byte in enumerate(image) if byte != PAINT), len(image))
