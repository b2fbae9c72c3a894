# SPDX-License-Identifier: Apache-2.0
"""Rows of inputs straight into an emulated board's memory.

QEMU's UARTs take one byte at a time, some 10 KB of inputs a second; this takes a millisecond a row. What the firmware
executes afterwards is the same. On a device, and to test the console itself, rows go by `db` commands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qemu.machine import Emulation
from qemu.symbols import Symbols

KEPT = "kept_input"
"""The firmware's own copy of all inputs, one after another, where the model overwrites them in its arena."""


@dataclass(frozen=True)
class InputMemory:
    """Where the firmware reads its inputs: (address, bytes) of each part of a row, in order."""

    parts: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, elf: Path, inputs: Sequence[tuple[str, int, int]]) -> InputMemory:
        """Of firmware whose model has its inputs behind a symbol each: name, bytes behind it, bytes.

        KeyError where the file has no such symbol.
        """
        symbols = Symbols(elf)
        if KEPT in symbols:
            return cls(((symbols[KEPT].address, sum(size for _, _, size in inputs)),))
        return cls(tuple((symbols[name].address + offset, size) for name, offset, size in inputs))

    def load(self, emulation: Emulation, row: bytes) -> None:
        """Put a row in place while the firmware waits for a command. ValueError for a row of another size."""
        size = sum(part for _, part in self.parts)
        if len(row) != size:
            raise ValueError(f"a row has {size} bytes, not {len(row)}")
        emulation.stop()
        for address, part in self.parts:
            emulation.write_memory(address, row[:part])
            row = row[part:]
        emulation.resume()
