# SPDX-License-Identifier: Apache-2.0
"""What every boot loader offers the session, and where its file is found by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, cast

from boards.flashing import Flashing, Sector
from toolchain.flash.port import Line, Port

Step = Callable[[int], None]
"""Called with the bytes that are done so far."""


class Proof(Enum):
    """How the content of the flash was checked."""

    READ_BACK = "read back"
    BEHIND_ROM = "read back, but for the first bytes, which the boot ROM hides"
    ON_CHIP = "compared by the boot loader"
    TRANSFER = "transfer checksums only: this protocol cannot read back"


@dataclass(frozen=True)
class Identity:
    """What the boot loader says of its chip. `chip_id` is None where it does not tell; `flash_bytes` likewise."""

    loader: str
    chip_id: int | None = None
    family: int = 0
    flash_bytes: int | None = None
    protected: bool = False


class BootLoader(Protocol):
    """A dialogue with one boot loader. Every method ends in bounded time and raises a FlashError where it fails."""

    proof: Proof
    line: Line
    from_start: bool
    """Whether a repair has to begin with the first byte again: the loader takes ascending addresses only."""
    erases: bool
    """Whether it erases when it is told to, not only what it is about to write."""

    def connect(self) -> Identity:
        """Gets in step with the boot loader and asks who it is."""
        ...

    def read(self, address: int, size: int) -> bytes | None:
        """Memory; None where this protocol, or its protection, does not allow that."""
        ...

    def unprotect(self) -> None:
        """Removes the protection, which wipes the chip; the boot loader listens again afterwards."""
        ...

    def erase(self, sectors: Sequence[Sector], step: Step) -> None:
        """Erases these sectors and no others (a loader with `from_start`: at least these)."""
        ...

    def write(self, address: int, data: bytes, step: Step) -> None:
        """Writes whole words. Raises Damaged where a block's state is unknown."""
        ...

    def verify(self, address: int, data: bytes, step: Step) -> None:
        """Raises Mismatch at the first byte that differs. With Proof.TRANSFER: has nothing to do."""
        ...

    def start(self, address: int) -> bool:
        """Starts the application. False where only a reset does."""
        ...


Maker = Callable[[Port, Flashing, int, float], BootLoader]
"""Port, facts of the chip, bits a second, patience (what to multiply usual waits with)."""

_MODULES = {"lpc8xx": "lpc", "py32": "stm32", "ymodem": "xmodem"}


def maker_of(protocol: str) -> Maker:
    """What makes a dialogue of that protocol: `make` of toolchain/flash/<protocol>.py."""
    module = importlib.import_module(f"toolchain.flash.{_MODULES.get(protocol, protocol)}")
    return cast(Maker, module.make)
