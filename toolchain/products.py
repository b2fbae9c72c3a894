# SPDX-License-Identifier: Apache-2.0
"""The files that a build leaves: all of them are known before it begins, so that a cache can hold and return them."""

from __future__ import annotations

from boards.board import Board
from toolchain.images.forms import form_of

HOST_OBJECTS = "objects.zip"
"""What the building machine runs."""


def products(board: Board, *prefixes: str, app: bool = False) -> tuple[str, ...]:
    """Names relative to build/<board>/<model>/; `prefixes` are the starts of the models' C names, `app` says whether
    the user brings sources."""
    images = ["firmware.elf", "firmware.bin", "firmware.hex"]
    form = form_of(board)
    if form.uf2_family is not None:
        images.append("firmware.uf2")
    sources = ["runtime.c", *_sources("firmware"), *form.sources]
    if not board.emulator.native:
        images.append("emulator.elf")
        sources += _sources("emulator")
    headers = [f"include/{prefix}.h" for prefix in prefixes] + (["include/firmware.h"] if app else [])
    archives = [f"lib{prefix}.a" for prefix in prefixes]
    reading = [f"{prefix}{suffix}" for prefix in prefixes for suffix in (".ll", ".s")]
    return (*images, "report.json", "report.html", *headers, *archives, *sources, *reading)


def host_products(prefix: str) -> tuple[str, ...]:
    """As `products`, for the building machine."""
    return ("report.json", HOST_OBJECTS, f"{prefix}.ll", f"{prefix}.s")


def _sources(stem: str) -> list[str]:
    return [f"{stem}.c", f"{stem}_startup.S", f"{stem}.ld", f"{stem}.map"]
