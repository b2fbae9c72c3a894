# SPDX-License-Identifier: Apache-2.0
"""A link that is lost in the middle, and flashing that goes on with `resume`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.flash.bench import flash_device, flashing_of, image, small
from tests.flash.line import Faults
from tests.flash.lpc_device import LpcDevice
from tests.flash.stm32_device import Stm32Device
from tests.flash.wch_device import WchDevice
from tests.flash.xmodem_device import XmodemDevice
from toolchain.flash.errors import FlashError

BLUEPILL, V307, LPC1768 = (flashing_of(board) for board in ("bluepill", "ch32v307", "lpc1768"))
SIZE, SECTORS = 10 * 1024 - 3, 10


@pytest.mark.parametrize("cut", (3000, 6000, 9000, 12000, 18000))
def test_only_what_is_missing_is_written(cut: int) -> None:
    device, data = Stm32Device(BLUEPILL), image(SIZE)
    with pytest.raises(FlashError, match="flash again"):
        flash_device(device, BLUEPILL, data, Faults(cut=cut))
    right = [n for n in range(SECTORS) if device.flash.data[1024 * n :][:1024] == data[1024 * n :][:1024]]
    assert 0 < len(right) < SECTORS or cut > 12000
    device.enter()
    outcome = flash_device(device, BLUEPILL, data, resume=True)
    assert device.flash.read(BLUEPILL.origin, SIZE) == data
    assert not set(right) & set(device.flash.erased)
    assert not device.flash.overwritten
    assert outcome.kept is not None and outcome.kept + len(device.flash.erased) == SECTORS
    assert outcome.started


def test_a_whole_image_is_verified_and_left_alone() -> None:
    device, data = Stm32Device(BLUEPILL), image(SIZE)
    flash_device(device, BLUEPILL, data)
    device.enter()
    outcome = flash_device(device, BLUEPILL, data, resume=True)
    assert outcome.kept == SECTORS and not device.flash.erased and outcome.started


def test_single_sectors_in_between_are_found() -> None:
    device, data = Stm32Device(BLUEPILL), image(SIZE)
    flash_device(device, BLUEPILL, data)
    for offset in (0, 4 * 1024 + 7, SIZE - 1):
        device.flash.data[offset] ^= 1
    device.enter()
    outcome = flash_device(device, BLUEPILL, data, resume=True)
    assert outcome.kept == SECTORS - 3 and sorted(device.flash.erased) == [0, 4, 9]
    assert device.flash.read(BLUEPILL.origin, SIZE) == data


def test_a_disturbed_line_keeps_nothing_wrong() -> None:
    device, data = Stm32Device(BLUEPILL), image(SIZE)
    flash_device(device, BLUEPILL, data)
    device.flash.data[5000] ^= 0x80
    device.enter()
    flash_device(device, BLUEPILL, data, Faults(flipped=0.0005), resume=True)
    assert device.flash.read(BLUEPILL.origin, SIZE) == data


def test_a_chip_that_is_erased_as_a_whole_begins_anew() -> None:
    chip = replace(small(BLUEPILL, 16), protocol="py32", size_at=0)
    device, data = Stm32Device(chip, extended=True), image(SIZE)
    flash_device(device, chip, data)
    device.flash.data[SIZE - 1] ^= 1
    device.enter()
    outcome = flash_device(device, chip, data, resume=True)
    assert outcome.kept == 0 and len(device.flash.erased) == 16
    assert device.flash.read(chip.origin, SIZE) == data


def test_the_first_sector_of_an_lpc_is_not_trusted() -> None:
    """Its first bytes are behind the boot ROM."""
    device, data = LpcDevice(LPC1768), image(3 * 4096)
    flash_device(device, LPC1768, data)
    device.flash.data[3] ^= 1
    device.flash.erased.clear()
    outcome = flash_device(device, LPC1768, data, resume=True)
    assert outcome.kept == 2 and device.flash.erased == [0]
    assert device.flash.read(LPC1768.origin, len(data)) == data


def test_loaders_that_cannot_read_begin_anew() -> None:
    wch, xmodem, data = WchDevice(V307), XmodemDevice(), image(3000)
    flash_device(wch, V307, data)
    wch.flash.erased.clear()
    assert flash_device(wch, V307, data, resume=True).kept is None
    assert wch.flash.erased and wch.flash.read(V307.origin, 3000) == data
    assert flash_device(xmodem, replace(BLUEPILL, protocol="xmodem", word=1), data, resume=True).kept is None
