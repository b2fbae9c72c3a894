# SPDX-License-Identifier: Apache-2.0
"""ST's boot loader: every byte arrives, nothing else is erased, and each fault is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.errors import UserError
from tests.flash.bench import erase_device, flash_device, flashing_of, image, small
from tests.flash.line import Faults
from tests.flash.stm32_device import Stm32Device
from toolchain.flash.errors import Mismatch, NoAnswer, Protected, WriteIgnored, WrongChip

BLUEPILL = flashing_of("bluepill")
NUCLEO = flashing_of("nucleo_f446")
H743 = flashing_of("nucleo_h743")


@pytest.mark.parametrize("size", (1, 3, 255, 257, 1023, 1024, 1025, 4096))
@pytest.mark.parametrize("extended", (False, True))
def test_writes_every_byte_and_erases_the_touched_sectors(size: int, extended: bool) -> None:
    device, data = Stm32Device(BLUEPILL, extended=extended), image(size)
    before = bytes(device.flash.data)
    outcome = flash_device(device, BLUEPILL, data)
    sectors = -(-size // 1024)
    assert device.flash.read(BLUEPILL.origin, size) == data
    assert device.flash.erased == list(range(sectors))
    assert device.flash.data[sectors * 1024 :] == before[sectors * 1024 :]
    assert not device.flash.overwritten
    assert outcome.started and device.started == BLUEPILL.origin


def test_fills_the_whole_flash() -> None:
    chip = small(BLUEPILL, 16)
    device, data = Stm32Device(chip, kilobytes=16, busy=True), image(16 * 1024)
    flash_device(device, chip, data)
    assert bytes(device.flash.data) == data


@pytest.mark.parametrize(
    ("flashing", "size", "sectors"), ((NUCLEO, 16385, [0, 1]), (NUCLEO, 65537, [0, 1, 2, 3, 4]), (H743, 33, [0]))
)
def test_sectors_of_any_size(flashing: object, size: int, sectors: list[int]) -> None:
    assert isinstance(flashing, type(NUCLEO))
    device = Stm32Device(flashing, chip_id=flashing.chip_ids[0], extended=True, kilobytes=512)
    data = image(size)
    flash_device(device, flashing, data)
    assert device.flash.read(flashing.origin, size) == data
    assert device.flash.erased == sectors


def test_an_image_in_the_middle_touches_its_sectors_only() -> None:
    device, data = Stm32Device(BLUEPILL), image(1500)
    flash_device(device, BLUEPILL, data, at=0x1402)
    assert device.flash.erased == [5, 6]
    assert device.flash.read(BLUEPILL.origin + 0x1402, 1500) == data


def test_in_step_already() -> None:
    device, data = Stm32Device(BLUEPILL, in_step=True), image(100)
    flash_device(device, BLUEPILL, data)
    assert device.flash.read(BLUEPILL.origin, 100) == data


def test_another_chip_is_left_alone() -> None:
    device = Stm32Device(BLUEPILL, chip_id=0x413)
    with pytest.raises(WrongChip, match=r"id 0x413(.|\n)*0x410"):
        flash_device(device, BLUEPILL, image(100))
    assert not device.flash.erased


def test_a_chip_with_less_flash_is_left_alone() -> None:
    device = Stm32Device(BLUEPILL, kilobytes=32)
    with pytest.raises(WrongChip, match=r"40000 bytes(.|\n)*32768 bytes"):
        flash_device(device, BLUEPILL, image(40000))
    assert not device.flash.erased


def test_readout_protection_is_named_and_removed_only_when_asked() -> None:
    data = image(100)
    device = Stm32Device(BLUEPILL, locked=True)
    with pytest.raises(Protected, match="WIPES"):
        flash_device(device, BLUEPILL, data)
    assert device.locked and not device.flash.erased
    flash_device(device, BLUEPILL, data, unprotect=True)
    assert device.unprotected == 1
    assert device.flash.read(BLUEPILL.origin, 100) == data


def test_write_protection_that_is_refused_is_named() -> None:
    device = Stm32Device(BLUEPILL, write_protected=frozenset({0}))
    with pytest.raises(Protected, match="unprotect=yes"):
        flash_device(device, BLUEPILL, image(100))
    assert not device.flash.erased


def test_write_protection_that_is_silent_is_found() -> None:
    device = Stm32Device(BLUEPILL, write_protected=frozenset({0}), loud=False)
    with pytest.raises(WriteIgnored, match="did not change"):
        flash_device(device, BLUEPILL, image(100))


def test_a_clone_that_only_pretends_is_found() -> None:
    device = Stm32Device(BLUEPILL)
    device.flash.ignores = True
    with pytest.raises(WriteIgnored, match="pretends"):
        flash_device(device, BLUEPILL, image(3000))


@pytest.mark.parametrize("offset", (0, 300, 2999))
def test_a_wrong_bit_in_flash_is_found(offset: int) -> None:
    device, data = Stm32Device(BLUEPILL), image(3000)
    device.flash.stuck = offset
    with pytest.raises(Mismatch) as failure:
        flash_device(device, BLUEPILL, data)
    assert failure.value.address == BLUEPILL.origin + offset
    assert (failure.value.expected, failure.value.found) == (data[offset], data[offset] ^ 0x10)


def test_a_cut_line_says_how_the_chip_is_left() -> None:
    device = Stm32Device(BLUEPILL)
    with pytest.raises(NoAnswer, match=r"not whole(.|\n)*flash again"):
        flash_device(device, BLUEPILL, image(3000), Faults(cut=1500))
    assert device.started is None


def test_erase() -> None:
    chip = small(BLUEPILL, 40)
    device = Stm32Device(chip, extended=True)
    erase_device(device, chip)
    assert device.flash.erased == list(range(40))


def test_what_does_not_fit_is_refused_before_the_port_is_used() -> None:
    device = Stm32Device(BLUEPILL)
    for data, at, message in ((b"", 0, "empty"), (bytes(65537), 0, "1 bytes outside"), (b"1", 65536, "outside")):
        with pytest.raises(UserError, match=message):
            flash_device(device, BLUEPILL, data, at=at)
    assert not device.in_step


def test_py32_erases_all_and_writes_short_blocks() -> None:
    chip = replace(small(BLUEPILL, 8), protocol="py32", size_at=0)
    device, data = Stm32Device(chip, extended=True), image(3000)
    flash_device(device, chip, data)
    assert device.flash.erased == list(range(8))
    assert device.flash.read(chip.origin, 3000) == data
