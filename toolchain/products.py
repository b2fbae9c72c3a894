# SPDX-License-Identifier: Apache-2.0
"""The files that a build leaves: all of them are known before it begins, so that a cache can hold and return them."""

from __future__ import annotations

from boards.board import Board

UF2_FAMILIES = {"rp2040": 0xE48BFF56}
"""Board.image to UF2 family (microsoft/uf2, utils/uf2families.json)."""

HOST_OBJECTS = "objects.zip"
"""What the building machine runs."""


def products(board: Board, prefix: str) -> tuple[str, ...]:
    """Names relative to build/<board>/<model>/; `prefix` is the start of the model's C names."""
    images = ["firmware.elf", "firmware.bin", "firmware.hex"]
    if board.image in UF2_FAMILIES:
        images.append("firmware.uf2")
    sources = ["runtime.c", *_sources("firmware")]
    if board.image == "rp2040":
        sources += ["boot2.S", "boot2_checked.S"]
    if not board.emulator.native:
        images.append("emulator.elf")
        sources += _sources("emulator")
    reading = [f"{prefix}.ll", f"{prefix}.s"]
    return (*images, "report.json", "report.html", f"include/{prefix}.h", f"lib{prefix}.a", *sources, *reading)


def host_products(prefix: str) -> tuple[str, ...]:
    """As `products`, for the building machine."""
    return ("report.json", HOST_OBJECTS, f"{prefix}.ll", f"{prefix}.s")


def _sources(stem: str) -> list[str]:
    return [f"{stem}.c", f"{stem}_startup.S", f"{stem}.ld", f"{stem}.map"]
