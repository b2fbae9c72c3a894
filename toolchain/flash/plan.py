# SPDX-License-Identifier: Apache-2.0
"""What is written where, checked before a device is touched."""

from __future__ import annotations

from dataclasses import dataclass

from boards.board import Board
from boards.flashing import Flashing, Sector
from compiler.errors import UserError
from toolchain.elf.file import ERASED, Elf
from toolchain.images.forms import form_of, stored

MACHINES = {"arm": "EM_ARM", "riscv": "EM_RISCV"}


@dataclass(frozen=True)
class Image:
    """Bytes to be stored from `address` on."""

    address: int
    data: bytes

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.address + len(self.data)


@dataclass(frozen=True)
class Plan:
    """An image, padded to whole words of the flash, with the sectors that it touches. `start` is where it begins."""

    image: Image
    sectors: tuple[Sector, ...]
    start: int

    def part(self, address: int, end: int) -> Image:
        """What of the image lies from `address` to `end`."""
        first = max(address, self.image.address)
        return Image(first, self.image.data[first - self.image.address : max(0, end - self.image.address)])


def image_of(elf: Elf, board: Board, flashing: Flashing) -> Image:
    """Firmware in the form that its boot loader takes, at the addresses that programmers use. UserError for another
    core's."""
    architecture = board.core.triple.split("-")[0]
    machine = next((m for prefix, m in MACHINES.items() if architecture.startswith((prefix, "thumb"))), "")
    if architecture.startswith("riscv"):
        machine = MACHINES["riscv"]
    if elf.machine != machine:
        raise UserError("this firmware is for another chip", where=board.name, got=elf.machine, allowed=machine)
    address, data = stored(elf, form_of(board))
    return Image(address - board.flash.origin + flashing.origin, data)


def plan_of(image: Image, flashing: Flashing) -> Plan:
    """Pads and maps the image. UserError where it is empty or not inside the flash."""
    if not image.data:
        raise UserError("the image is empty: there is nothing to flash")
    if image.address < flashing.origin or image.end > flashing.end:
        beyond = max(flashing.origin - image.address, image.end - flashing.end)
        raise UserError(
            "the image is not inside the chip's flash",
            got=f"{image.address:#x} to {image.end:#x}, {beyond} bytes outside",
            allowed=f"{flashing.origin:#x} to {flashing.end:#x}",
            hint="build for this board" if image.address != flashing.origin else None,
        )
    before = (image.address - flashing.origin) % flashing.word
    after = -(before + len(image.data)) % flashing.word
    padded = Image(image.address - before, ERASED * before + image.data + ERASED * after)
    return Plan(padded, flashing.touched(padded.address, len(padded.data)), image.address)
