# SPDX-License-Identifier: Apache-2.0
"""What boot ROMs want of an image: a header before the vectors, a block behind them, a container around all of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from boards.board import Board
from toolchain.elf.file import Elf, flat
from toolchain.images.esp import esp32c3_image
from toolchain.images.mcuboot import HEADER_BYTES, mcuboot_image


@dataclass(frozen=True)
class Form:
    """A form of image, named by `Board.image`.

    `header` and `block` name templates in firmware_templates/startup: assembled, the header (`vectors_offset` bytes in
    all) is linked before the vectors and the block right behind them; without a template that place stays free.
    `checked`: the header ends with its checksum. `vector_sum`: word 7 of the vectors makes the sum of the first eight
    zero. `uf2_family` is what UF2 files say; `wrap` makes an address and the bytes that are flashed there out of an ELF
    file.
    """

    header: str | None = None
    vectors_offset: int = 0
    checked: bool = False
    vector_sum: bool = False
    block: str | None = None
    uf2_family: int | None = None
    wrap: Callable[[Elf], tuple[int, bytes]] | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources that a build generates for it, by name."""
        found = [f"{name}.S" for name in (self.header, self.block) if name is not None]
        return (*found, "boot_header.S") if self.checked else tuple(found)


FORMS = {
    "plain": Form(),
    # RP2040 data sheet 2.8.1; UF2 families: microsoft/uf2, utils/uf2families.json.
    "rp2040": Form(header="rp2040_boot2", vectors_offset=0x100, checked=True, uf2_family=0xE48BFF56),
    # RP2350 data sheet 5.9: a block loop that starts in the first 4 KB.
    "rp2350": Form(block="rp2350_block", uf2_family=0xE48BFF59),
    # i.MX RT1060 reference manual, chapter System Boot: FlexSPI configuration at 0, image vector table at 0x1000.
    "imxrt": Form(header="imxrt_header", vectors_offset=0x2000),
    # NXP UM10360, 32.3.1.1, criterion for valid user code.
    "lpc": Form(vector_sum=True),
    "mcuboot": Form(vectors_offset=HEADER_BYTES, wrap=mcuboot_image),
    "esp32c3": Form(wrap=esp32c3_image),
}


def form_of(board: Board) -> Form:
    return FORMS[board.image]


def stored(elf: Elf, form: Form) -> tuple[int, bytes]:
    """An address and the bytes that are flashed there."""
    return flat(elf) if form.wrap is None else form.wrap(elf)
