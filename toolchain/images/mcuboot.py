# SPDX-License-Identifier: Apache-2.0
"""The image that MCUboot starts (MCUboot, docs/design.md, Image format): a header before the vectors, the program, and
a trailer with the SHA-256 of both. It is not signed: a boot loader that wants a signature refuses it."""

from __future__ import annotations

import hashlib
import struct

from compiler.errors import UserError
from toolchain.elf.file import Elf, flat

HEADER_BYTES = 0x200
"""More than the header's fields need, since the vectors follow and are to be aligned. Zephyr's images have as much."""
MAGIC = 0x96F3B83D
HEADER = struct.Struct("<IIHHII8s4x")
"""Magic, load address, header size, size of the protected trailer, program size, flags, version, and no more."""
VERSION = struct.pack("<BBHI", 1, 0, 0, 0)
TRAILER = struct.Struct("<HH")
"""Magic, and the size of the trailer with this."""
TRAILER_MAGIC = 0x6907
RECORD = struct.Struct("<HH")
SHA256 = 0x10
"""Type of record, and its size without this."""


def mcuboot_image(elf: Elf) -> tuple[int, bytes]:
    """Where the image begins, HEADER_BYTES before the program, and the image."""
    origin, program = flat(elf)
    return origin - HEADER_BYTES, with_header(program)


def with_header(program: bytes) -> bytes:
    """Header, program, trailer."""
    fields = HEADER.pack(MAGIC, 0, HEADER_BYTES, 0, len(program), 0, VERSION)
    hashed = fields.ljust(HEADER_BYTES, b"\0") + program
    digest = hashlib.sha256(hashed).digest()
    records = RECORD.pack(SHA256, len(digest)) + digest
    return hashed + TRAILER.pack(TRAILER_MAGIC, TRAILER.size + len(records)) + records


def hash_of(image: bytes) -> bytes:
    """The SHA-256 in the trailer that `with_header` made. UserError where there is none."""
    fields = HEADER.unpack_from(image) if len(image) >= HEADER.size else (0,)
    if fields[0] != MAGIC:
        raise UserError(
            "this firmware has no MCUboot header",
            got=image[:4].hex(" "),
            allowed="firmware for a board that MCUboot starts: its data has image = 'mcuboot'",
        )
    at = fields[2] + fields[4] + TRAILER.size + RECORD.size
    return image[at : at + hashlib.sha256().digest_size]
