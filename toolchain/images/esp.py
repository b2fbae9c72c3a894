# SPDX-License-Identifier: Apache-2.0
"""The image that Espressif's boot ROM loads from flash into RAM (esptool documentation, Firmware Image Format)."""

from __future__ import annotations

import hashlib
import struct

from toolchain.elf.file import Elf

MAGIC = 0xE9
CHECKSUM_SEED = 0xEF
ESP32C3 = 5
"""Chip ids: esp_app_format.h of ESP-IDF."""
DIO, FLASH_4MB_40MHZ = 2, 0x20
WP_DISABLED = 0xEE
MAX_SEGMENTS = 16


def esp32c3_image(elf: Elf) -> tuple[int, bytes]:
    """Flash offset 0 and the bytes for it: header, a segment for each stored part of the ELF, checksum, SHA-256.

    Segments are padded to words with zeros. ValueError for more segments than the ROM takes.
    """
    segments = sorted(elf.segments, key=lambda segment: segment.address)
    if len(segments) > MAX_SEGMENTS:
        raise ValueError(f"{len(segments)} segments, more than {MAX_SEGMENTS}")
    image = bytearray(
        struct.pack("<4BI", MAGIC, len(segments), DIO, FLASH_4MB_40MHZ, elf.symbol("Reset_Handler").address)
    )
    # WP pin, drive strengths, chip, lowest and highest revision, reserved, and that a digest follows.
    image += struct.pack("<B3xHBHH4xB", WP_DISABLED, ESP32C3, 0, 0, 0xFFFF, 1)
    checksum = CHECKSUM_SEED
    for segment in segments:
        data = segment.data + bytes(-len(segment.data) % 4)
        image += struct.pack("<II", segment.address, len(data)) + data
        for byte in data:
            checksum ^= byte
    image += bytes(15 - len(image) % 16)
    image.append(checksum)
    return 0, bytes(image) + hashlib.sha256(image).digest()
