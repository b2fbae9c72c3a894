# SPDX-License-Identifier: Apache-2.0
"""The files that programmers take: flat binary, Intel HEX, UF2."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from toolchain.elf.file import ERASED
from toolchain.files import write_bytes
from toolchain.images.forms import form_of, stored
from toolchain.link import Image

UF2_MAGIC = (0x0A324655, 0x9E5D5157, 0x0AB16F30)
UF2_FAMILY_PRESENT = 0x2000
UF2_PAYLOAD = 256


def write_images(image: Image, out: Path) -> tuple[Path, ...]:
    """firmware.bin, .hex, .map and, for boards that take it, .uf2. Returns their paths."""
    form = form_of(image.site.board)
    origin, data = stored(image.elf, form)
    written = [
        write_bytes(out / "firmware.bin", data),
        write_bytes(out / "firmware.hex", intel_hex(origin, data).encode("ascii")),
        image.path.with_suffix(".map"),
    ]
    if form.uf2_family is not None:
        written.append(write_bytes(out / "firmware.uf2", uf2(origin, data, form.uf2_family)))
    return tuple(written)


def intel_hex(origin: int, data: bytes) -> str:
    """Intel HEX (Intel, 1988) with extended linear addresses, 16 bytes a record."""
    return "".join(f":{record.hex().upper()}{-sum(record) & 255:02X}\n" for record in _records(origin, data))


def _records(origin: int, data: bytes) -> Iterator[bytes]:
    upper, at = -1, 0
    while at < len(data):
        address = origin + at
        if address >> 16 != upper:
            upper = address >> 16
            yield struct.pack(">BHBH", 2, 0, 4, upper)
        size = min(16, len(data) - at, 0x10000 - (address & 0xFFFF))
        yield struct.pack(">BHB", size, address & 0xFFFF, 0) + data[at : at + size]
        at += size
    yield struct.pack(">BHB", 0, 0, 1)


def uf2(origin: int, data: bytes, family: int) -> bytes:
    """UF2 blocks of 256 bytes each (microsoft/uf2)."""
    blocks = -(-len(data) // UF2_PAYLOAD)
    parts = []
    for block in range(blocks):
        chunk = data[block * UF2_PAYLOAD : (block + 1) * UF2_PAYLOAD].ljust(UF2_PAYLOAD, ERASED)
        head = struct.pack(
            "<8I",
            *UF2_MAGIC[:2],
            UF2_FAMILY_PRESENT,
            origin + block * UF2_PAYLOAD,
            UF2_PAYLOAD,
            block,
            blocks,
            family,
        )
        parts.append(head + chunk.ljust(476, b"\0") + struct.pack("<I", UF2_MAGIC[2]))
    return b"".join(parts)
