# SPDX-License-Identifier: Apache-2.0
"""The files that a build leaves: all of them are known before it begins, so that a cache can hold and return them."""

from __future__ import annotations

from boards.board import Board
from toolchain.forms import form_of

HOST_OBJECTS = "objects.zip"
"""What the building machine runs."""


def products(board: Board, prefix: str) -> tuple[str, ...]:
    """Names relative to build/<board>/<model>/; `prefix` is the start of the model's C names."""
    images = ["firmware.elf", "firmware.bin", "firmware.hex"]
    form = form_of(board)
    if form.uf2_family is not None:
        images.append("firmware.uf2")
    sources = ["runtime.c", *_sources("firmware"), *form.sources]
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
