# SPDX-License-Identifier: Apache-2.0
"""What precedes the vectors in an RP2040's flash: 252 bytes of code and their checksum (RP2040 data sheet, 2.8.1)."""

from __future__ import annotations

import struct

CODE_BYTES = 252


def checked_boot2(code: bytes) -> bytes:
    """The 256 bytes that the boot ROM accepts. ValueError where the code is too long."""
    if len(code) > CODE_BYTES:
        raise ValueError(f"the boot loader has {len(code)} bytes, more than {CODE_BYTES}")
    padded = code.ljust(CODE_BYTES, b"\0")
    return padded + struct.pack("<I", crc32_mpeg2(padded))


def crc32_mpeg2(data: bytes) -> int:
    """CRC-32 with polynomial 04C11DB7, start FFFFFFFF, neither reflected nor inverted, as the boot ROM computes it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte << 24
        for _ in range(8):
            crc = ((crc << 1) ^ (0x04C11DB7 if crc & 0x80000000 else 0)) & 0xFFFFFFFF
    return crc


def header_data(image: bytes) -> str:
    """The checked image as data for the assembler."""
    lines = [", ".join(f"0x{byte:02X}" for byte in image[at : at + 16]) for at in range(0, len(image), 16)]
    return '    .section .boot_header, "a"\n' + "".join(f"    .byte {line}\n" for line in lines)
