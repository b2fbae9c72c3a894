# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct

import pytest

from toolchain.elf.file import Elf, Segment, flat
from toolchain.images.boot2 import checked_boot2, crc32_mpeg2, header_data
from toolchain.images.files import intel_hex, uf2


def test_crc_is_the_catalogued_one() -> None:
    assert crc32_mpeg2(b"123456789") == 0x0376E6E7


def test_boot2_ends_with_its_checksum() -> None:
    image = checked_boot2(b"\x01\x02")
    assert len(image) == 256
    assert struct.unpack("<I", image[252:])[0] == crc32_mpeg2(b"\x01\x02" + bytes(250))
    assert crc32_mpeg2(image[:252] + struct.pack(">I", crc32_mpeg2(image[:252]))) == 0
    assert header_data(image).count("0x") == 256


def test_boot2_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="253 bytes"):
        checked_boot2(bytes(253))


def test_flat_fills_gaps_with_erased_flash() -> None:
    segments = (Segment(0x110, b"cd", 0x20000000), Segment(0x108, b"ab", 0x108))
    elf = Elf("EM_ARM", 32, 0, None, (), (), (), segments)
    assert flat(elf) == (0x108, b"ab" + b"\xff" * 6 + b"cd")


def test_intel_hex_crosses_64_kb() -> None:
    data = bytes(range(20))
    lines = intel_hex(0x0800FFF8, data).splitlines()
    assert lines == [
        ":020000040800F2",
        ":08FFF8000001020304050607E5",
        ":020000040801F1",
        ":0C00000008090A0B0C0D0E0F1011121352",
        ":00000001FF",
    ]
    for line in lines:
        assert sum(bytes.fromhex(line[1:])) & 255 == 0


def test_uf2_blocks() -> None:
    data = bytes(300)
    image = uf2(0x10000000, data, 0xE48BFF56)
    assert len(image) == 1024
    for block in range(2):
        head = struct.unpack_from("<8I", image, 512 * block)
        assert head == (0x0A324655, 0x9E5D5157, 0x2000, 0x10000000 + 256 * block, 256, block, 2, 0xE48BFF56)
        assert struct.unpack_from("<I", image, 512 * block + 508)[0] == 0x0AB16F30
    assert image[512 + 32 : 512 + 32 + 256] == bytes(44) + b"\xff" * 212
