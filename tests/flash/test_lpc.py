# SPDX-License-Identifier: Apache-2.0
"""NXP's ISP, encoded and plain: every byte arrives, nothing else is erased, and each fault is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from boards.flashing import Flashing
from tests.flash.bench import erase_device, flash_device, flashing_of, image, small
from tests.flash.line import Faults
from tests.flash.lpc_device import LpcDevice
from tests.flash.strangers import Babbling, Echoing
from toolchain.flash.errors import (
    Damaged,
    Echo,
    FlashError,
    Garbage,
    LinkLost,
    Mismatch,
    NoAnswer,
    Protected,
    WriteIgnored,
    WrongChip,
)
from toolchain.flash.protocol import Proof

LPC1768 = flashing_of("lpc1768")
PLAIN = replace(LPC1768, protocol="lpc8xx", word=64, sectors=small(LPC1768, 16).sectors)
BOTH = pytest.mark.parametrize("flashing", (LPC1768, PLAIN), ids=lambda f: f.protocol)


def device_of(flashing: Flashing, hidden: int = 0) -> LpcDevice:
    return LpcDevice(flashing, plain=flashing.protocol == "lpc8xx", hidden=hidden)


@BOTH
@pytest.mark.parametrize("size", (1, 3, 255, 257, 901, 4095, 4096, 4097, 9001))
def test_writes_every_byte_and_erases_the_touched_sectors(flashing: Flashing, size: int) -> None:
    device, data = device_of(flashing), image(size)
    before = bytes(device.flash.data)
    outcome = flash_device(device, flashing, data)
    sectors = -(-size // 4096)
    assert outcome.proof is Proof.READ_BACK
    assert device.flash.read(0, size) == data
    assert device.flash.erased == list(range(sectors))
    assert device.flash.data[sectors * 4096 :] == before[sectors * 4096 :]
    assert not device.flash.overwritten


@BOTH
def test_fills_the_whole_flash(flashing: Flashing) -> None:
    chip = small(flashing, 16)
    device, data = device_of(chip), image(16 * 4096)
    flash_device(device, chip, data)
    assert bytes(device.flash.data) == data


def test_sectors_of_two_sizes() -> None:
    device, data = device_of(LPC1768), image(100)
    flash_device(device, LPC1768, data, at=16 * 4096 + 32768 - 50)
    assert device.flash.erased == [16, 17]
    assert device.flash.read(16 * 4096 + 32768 - 50, 100) == data


@BOTH
def test_the_program_is_started_where_its_reset_vector_says(flashing: Flashing) -> None:
    device = device_of(flashing)
    data = image(4) + (0x145).to_bytes(4, "little") + image(500)
    assert flash_device(device, flashing, data).started
    assert device.started == 0x144
    assert not flash_device(device_of(flashing), flashing, bytes(8) + image(500)).started


@pytest.mark.parametrize(("flashing", "hidden"), ((LPC1768, 64), (PLAIN, 512)), ids=lambda v: str(v)[:20])
def test_bytes_that_the_rom_hides_are_told(flashing: Flashing, hidden: int) -> None:
    for size in (1, hidden, hidden + 1, 5000):
        device, data = device_of(flashing, hidden), image(size)
        assert flash_device(device, flashing, data).proof is Proof.BEHIND_ROM
        assert device.flash.read(0, size) == data and not device.flash.overwritten
    device = device_of(flashing, hidden)
    device.flash.stuck = hidden
    with pytest.raises(Mismatch, match=f"at address {hidden:#x}"):
        flash_device(device, flashing, image(5000))


@pytest.mark.parametrize("tells_ok", (False, True))
def test_plain_data_with_and_without_an_answer(tells_ok: bool) -> None:
    device, data = replace(device_of(PLAIN), tells_ok=tells_ok), image(3000)
    flash_device(device, PLAIN, data)
    assert device.flash.read(0, 3000) == data


@BOTH
def test_a_loader_that_takes_commands_already(flashing: Flashing) -> None:
    for echo in (False, True):
        device, data = replace(device_of(flashing), in_step=True, echo=echo), image(500)
        flash_device(device, flashing, data)
        assert device.flash.read(0, 500) == data


def test_a_loader_that_stops_us_now_and_then() -> None:
    device, data = replace(device_of(LPC1768), pauses=True), image(3000)
    flash_device(device, LPC1768, data)
    assert device.flash.read(0, 3000) == data and not device.overruns


@BOTH
def test_another_chip_is_left_alone(flashing: Flashing) -> None:
    device = replace(device_of(flashing), chip_id=0x26113F37)
    with pytest.raises(WrongChip, match="id 0x26113f37"):
        flash_device(device, flashing, image(100))
    assert not device.flash.erased


@BOTH
@pytest.mark.parametrize("crp", (1, 2))
def test_protection_ends_with_the_whole_flash_and_a_reset(flashing: Flashing, crp: int) -> None:
    chip = small(flashing, 4)
    device = replace(device_of(chip), crp=crp)
    with pytest.raises(Protected, match="unprotect=yes"):
        flash_device(device, chip, image(100))
    assert not device.flash.erased
    device = replace(device, in_step=False, echo=True)
    with pytest.raises(Protected, match="reset it into its boot loader"):
        flash_device(device, chip, image(100), unprotect=True)
    assert bytes(device.flash.data) == b"\xff" * 4 * 4096
    flash_device(replace(device_of(chip)), chip, image(100))


def test_an_image_that_would_lock_the_chip_is_not_written() -> None:
    data = bytearray(image(2000))
    data[0x2FC:0x300] = (0x43218765).to_bytes(4, "little")
    device = device_of(LPC1768)
    with pytest.raises(FlashError, match="would protect the chip"):
        flash_device(device, LPC1768, bytes(data))
    assert device.flash.read(0, 4096) == b"\xff" * 4096


@BOTH
def test_a_wrong_bit_and_ignored_writes_are_found(flashing: Flashing) -> None:
    for offset in (0, 300, 2999):
        device, data = device_of(flashing), image(3000)
        device.flash.stuck = offset
        with pytest.raises(Mismatch) as failure:
            flash_device(device, flashing, data)
        assert failure.value.address == offset
        assert (failure.value.expected, failure.value.found) == (data[offset], data[offset] ^ 0x10)
    device = device_of(flashing)
    device.flash.ignores = True
    with pytest.raises(WriteIgnored, match="pretends"):
        flash_device(device, flashing, image(3000))
    assert device.started is None


@BOTH
def test_a_cut_line_says_how_the_chip_is_left(flashing: Flashing) -> None:
    device = device_of(flashing)
    with pytest.raises((NoAnswer, Damaged), match=r"not whole(.|\n)*flash again"):
        flash_device(device, flashing, image(3000), Faults(cut=2000))
    assert device.started is None and device.flash.read(0, 64) != image(3000)[:64]


@BOTH
def test_no_boot_loader(flashing: Flashing) -> None:
    with pytest.raises(Echo, match="joined"):
        flash_device(Echoing(), flashing, image(10))
    with pytest.raises(Garbage, match="not this boot loader"):
        flash_device(Babbling(), flashing, image(10))
    with pytest.raises((NoAnswer, LinkLost), match=r"P2\.10 low"):
        flash_device(device_of(flashing), flashing, image(10), Faults(cut=0))


@BOTH
def test_erase(flashing: Flashing) -> None:
    chip = small(flashing, 10)
    device = device_of(chip)
    erase_device(device, chip)
    assert bytes(device.flash.data) == b"\xff" * 10 * 4096
