# SPDX-License-Identifier: Apache-2.0
"""What the user chooses of a board: the clock, the bank of the arena, constants in RAM; and what boot ROMs want."""

from __future__ import annotations

import hashlib
import json
import struct
from functools import reduce
from operator import xor
from pathlib import Path

import pytest

from boards.board import Memory
from boards.loader import load_board
from compiler.errors import UserError
from qemu.symbols import Symbols
from tests.firmware.emulated import booted
from tests.firmware.fake import fake_model
from toolchain.elf.file import read_elf
from toolchain.firmware import build_firmware
from toolchain.options import FirmwareOptions
from toolchain.stack.bound import is_jump, jump_offset


def bank(name: str, memory: str) -> Memory:
    return next(found for found in load_board(name).memories if found.name == memory)


def lies_in(symbols: Symbols, name: str, memory: Memory) -> bool:
    return memory.origin <= symbols[name].address < memory.end


@pytest.mark.parametrize(("arena", "found"), (("", "CCM"), ("RAM", "RAM"), ("CCM", "CCM")))
def test_the_arena_lies_where_it_is_told(tmp_path: Path, arena: str, found: str) -> None:
    board = load_board("f4discovery")
    result = build_firmware(board, fake_model(board, tmp_path), tmp_path, FirmwareOptions(arena=arena))
    symbols = Symbols(result.elf)
    assert lies_in(symbols, "fake_arena", bank("f4discovery", found))
    assert lies_in(symbols, "__stack_top", bank("f4discovery", "RAM"))
    assert json.loads(result.report.read_text())["banks"]["arena"] == found


def test_a_bank_that_is_not_there(tmp_path: Path) -> None:
    board = load_board("f4discovery")
    with pytest.raises(UserError, match="no such RAM bank") as caught:
        build_firmware(board, fake_model(board, tmp_path), tmp_path, FirmwareOptions(arena="DTCM"))
    assert "RAM (131072 bytes), CCM (65536 bytes)" in (caught.value.allowed or "")


@pytest.mark.parametrize("name", ("nucleo_l476", "ch32v307", "qemu_m0"))
def test_constants_are_copied_to_ram(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    result = build_firmware(board, fake_model(board, tmp_path), tmp_path, FirmwareOptions(weights="ram"))
    image, symbols = read_elf(result.elf.read_bytes()), Symbols(result.elf)
    weights = symbols["fake_weights"].address
    assert any(m.origin <= weights < m.end for m in board.memories if m.kind.value == "ram") and weights % 16 == 0
    assert all(
        not m.origin <= s.address < m.end for s in image.segments for m in board.memories if m.kind.value == "ram"
    )
    assert image.section(".stack") and image.section(".stack").address == board.ram.origin  # type: ignore[union-attr]
    with booted(board, result.runs) as (console, _):
        assert console.self_test().failure is None


@pytest.mark.parametrize("name", ("netduinoplus2", "stm32vldiscovery", "hifive1b", "lm3s6965evb", "netduino2"))
def test_full_speed_runs_where_the_chip_is_modelled(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    result = build_firmware(board, fake_model(board, tmp_path), tmp_path, FirmwareOptions(clock="max"))
    report = json.loads(result.report.read_text())
    assert report["clock"] == {"name": "max", "hz": board.clocks[1].hz} and board.emulator.native
    with booted(board, result.elf) as (console, _):
        assert console.self_test().failure is None


def test_a_clock_that_the_chip_does_not_have(tmp_path: Path) -> None:
    board = load_board("esp32c3")
    with pytest.raises(UserError, match="no such clock") as caught:
        build_firmware(board, fake_model(board, tmp_path), tmp_path, FirmwareOptions(clock="max"))
    assert caught.value.allowed == "reset (40 MHz)"


def test_rp2350_finds_its_image_definition(tmp_path: Path) -> None:
    board = load_board("pico2")
    result = build_firmware(board, fake_model(board, tmp_path), tmp_path, FirmwareOptions())
    image = (tmp_path / "firmware.bin").read_bytes()
    stack, reset = struct.unpack_from("<2I", image)
    symbols = Symbols(result.elf)
    assert stack == symbols["__stack_top"].address and reset == symbols["Reset_Handler"].address | 1
    block = struct.pack("<5I", 0xFFFFDED3, 0x10210142, 0x000001FF, 0, 0xAB123579)
    assert 0 < image.find(block) < 4096 - len(block) and image.find(block) % 4 == 0
    assert (tmp_path / "firmware.uf2").read_bytes()[28:32] == struct.pack("<I", 0xE48BFF59)


def test_imxrt_finds_its_header(tmp_path: Path) -> None:
    board = load_board("teensy40")
    result = build_firmware(board, fake_model(board, tmp_path), tmp_path, FirmwareOptions())
    image = (tmp_path / "firmware.bin").read_bytes()
    symbols, origin = Symbols(result.elf), board.flash.origin
    assert image[:4] == b"FCFB"
    table = struct.unpack_from("<8I", image, 0x1000)
    assert table[0] & 0xF0FFFFFF == 0x402000D1 and table[1] == symbols["Reset_Handler"].address | 1
    assert table[5] == origin + 0x1000 and table[4] == origin + 0x1020
    assert struct.unpack_from("<3I", image, 0x1020) == (origin, len(image), 0)
    assert struct.unpack_from("<I", image, 0x2000)[0] == symbols["__stack_top"].address


def test_mcuboot_finds_its_header_and_hash(tmp_path: Path) -> None:
    """Read as MCUboot's documentation describes the format."""
    board = load_board("nrf52840dk_mcuboot")
    result = build_firmware(board, fake_model(board, tmp_path), tmp_path, FirmwareOptions())
    image = (tmp_path / "firmware.bin").read_bytes()
    magic, _, header, protected, size, flags = struct.unpack_from("<IIHHII", image)
    assert (magic, header, protected, flags) == (0x96F3B83D, 0x200, 0, 0)
    symbols = Symbols(result.elf)
    assert symbols["__vectors"].address == board.flash.origin + header == 0xC200
    assert struct.unpack_from("<I", image, header)[0] == symbols["__stack_top"].address
    end = header + size
    assert image[end:] == struct.pack("<4H", 0x6907, 40, 0x10, 32) + hashlib.sha256(image[:end]).digest()


def test_esp32c3_rom_accepts_the_image(tmp_path: Path) -> None:
    """Read as esptool's documentation describes the format."""
    board = load_board("esp32c3")
    result = build_firmware(board, fake_model(board, tmp_path), tmp_path, FirmwareOptions())
    image = (tmp_path / "firmware.bin").read_bytes()
    magic, count, _, _, entry = struct.unpack_from("<4BI", image)
    assert magic == 0xE9 and entry == Symbols(result.elf)["Reset_Handler"].address
    assert struct.unpack_from("<H", image, 12)[0] == 5 and image[23] == 1
    at, checksum, loaded = 24, 0xEF, {}
    for _ in range(count):
        address, size = struct.unpack_from("<II", image, at)
        data = image[at + 8 : at + 8 + size]
        loaded[address], checksum = data, reduce(xor, data, checksum)
        at += 8 + size
    at += 15 - at % 16
    assert image[at] == checksum and image[at + 1 :] == hashlib.sha256(image[: at + 1]).digest()
    for segment in read_elf(result.elf.read_bytes()).segments:
        assert loaded[segment.address].rstrip(b"\0") == segment.data.rstrip(b"\0")
    constants = bank("esp32c3", "DROM")
    assert lies_in(Symbols(result.elf), "fake_weights", constants)


def test_ch32v103_enters_by_jumps(tmp_path: Path) -> None:
    board, user = load_board("ch32v103"), tmp_path / "user"
    user.mkdir()
    (user / "main.c").write_text('#include "fake.h"\nint main(void) { fake_invoke(); for (;;) { } }\n')
    result = build_firmware(board, fake_model(board, tmp_path), tmp_path / "out", FirmwareOptions(app=user))
    image = read_elf(result.elf.read_bytes())
    vectors, default = image.symbol("__vectors").address, image.symbol("Default_Handler").address
    for slot, handler in enumerate(board.vectors, start=16):
        word = image.word(vectors + 4 * slot)
        assert is_jump(word) == bool(handler)
        if is_jump(word):
            assert vectors + 4 * slot + jump_offset(word) == default
    assert jump_offset(0xFFDFF06F) == -4 and jump_offset(0x0040006F) == 4
