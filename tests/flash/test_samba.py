# SPDX-License-Identifier: Apache-2.0
"""SAM-BA over USB and UART, with and without Arduino's extensions: every byte arrives, nothing else is erased, and each
fault is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from boards.flashing import Flashing
from tests.flash.bench import erase_device, flash_device, image, small
from tests.flash.line import Faults
from tests.flash.sam_chips import Chip, SamD, SamE
from tests.flash.sam_rigs import MONITORS, SAM3X, SAMD21, SAMD51, device_of
from tests.flash.samba_device import SambaDevice
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
from toolchain.flash.samba_link import SambaLink

ALL = pytest.mark.parametrize(("name", "usb", "extensions"), MONITORS)
CHIPS = pytest.mark.parametrize("name", ("samd21", "samd51", "sam3x", "sam4s"))


@ALL
@pytest.mark.parametrize("size", (1, 65, 255, 257, 513, 8191, 8193))
def test_writes_every_byte_and_erases_the_touched_sectors(name: str, usb: bool, extensions: str, size: int) -> None:
    device, flashing = device_of(name, usb, extensions)
    data, flash = image(size), device.flash
    before, sector = bytes(flash.data), flashing.sectors[0].size
    outcome = flash_device(device, flashing, data)
    sectors = -(-size // sector)
    assert outcome.proof is Proof.READ_BACK
    assert flash.read(flashing.origin, size) == data
    assert sorted(flash.erased) == list(range(sectors))
    assert flash.data[sectors * sector :] == before[sectors * sector :]
    assert not flash.overwritten and device.fault is None and not device.chip.refusals
    assert outcome.started and device.started


@CHIPS
def test_fills_the_whole_flash(name: str) -> None:
    device, flashing = device_of(name, True, "XYZ" if name.startswith("samd") else "")
    data = image(flashing.end - flashing.origin)
    flash_device(device, flashing, data)
    assert bytes(device.flash.data) == data and device.started


@CHIPS
def test_an_image_in_the_middle_touches_its_sectors_only(name: str) -> None:
    device, flashing = device_of(name)
    flash_device(device, flashing, image(600), at=0x1FFF)
    sector = flashing.sectors[0].size
    assert sorted(device.flash.erased) == list(range(0x1FFF // sector, (0x1FFF + 600 - 1) // sector + 1))
    assert device.flash.read(flashing.origin + 0x1FFF, 600) == image(600)


@pytest.mark.parametrize("usb", (False, True))
def test_a_monitor_that_takes_commands_already(usb: bool) -> None:
    device, flashing = device_of("samd21", usb, "XYZ")
    device.in_step = True
    flash_device(device, flashing, image(500))
    assert device.flash.read(flashing.origin, 500) == image(500)


def test_a_rom_that_reads_zeros_for_blocks_of_flash() -> None:
    device, flashing = device_of("sam3x", False)
    device.zeros = True
    flash_device(device, flashing, image(700))
    assert device.flash.read(flashing.origin, 700) == image(700)


def test_blocks_do_not_end_with_a_whole_packet() -> None:
    device, flashing = device_of("samd21", True, "XYZ")
    flash_device(device, flashing, image(8000))
    sizes = [int(c[10:], 16) for c in device.commands if c.startswith("R")]
    assert sum(sizes) > 8000 and not [size for size in sizes if size > 32 and size % 64 == 0]


@CHIPS
def test_another_chip_is_left_alone(name: str) -> None:
    device, flashing = device_of(name)
    other = replace(flashing, chip_ids=(0x10010000,))
    with pytest.raises(WrongChip, match=f"id {flashing.chip_ids[0]:#x}"):
        flash_device(device, other, image(100))
    assert not device.flash.erased
    for stranger in {"samd21", "samd51", "sam3x", "sam4s"} - {name}:
        device = device_of(stranger)[0]
        with pytest.raises(WrongChip, match="another chip"):
            flash_device(device, flashing, image(100))
        assert not device.flash.erased and device.fault is None


def test_a_chip_with_less_flash_is_left_alone() -> None:
    device = SambaDevice(SamD(small(SAMD21, 32)))
    with pytest.raises(WrongChip, match=r"10048 bytes(.|\n)*8192 bytes"):
        flash_device(device, SAMD21, image(10000))
    assert not device.flash.erased


@CHIPS
def test_locked_regions_are_named_and_unlocked_only_when_asked(name: str) -> None:
    device, flashing = device_of(name)
    device.chip.locked.add(flashing.origin // device.chip.region)
    with pytest.raises(Protected, match="unprotect=yes"):
        flash_device(device, flashing, image(100))
    assert not device.flash.erased
    device.chip.restarted = False
    flash_device(device, flashing, image(100), unprotect=True)
    assert not device.chip.locked and device.flash.read(flashing.origin, 100) == image(100)


@CHIPS
def test_the_security_bit_is_told_and_no_hindrance(name: str) -> None:
    for security in (False, True):
        device, flashing = device_of(name)
        device.chip.security = security
        assert flash_device(device, flashing, image(100)).loader.endswith(", security bit set") == security
        assert device.flash.read(flashing.origin, 100) == image(100)


@ALL
def test_a_wrong_bit_and_ignored_writes_are_found(name: str, usb: bool, extensions: str) -> None:
    for offset in (0, 300, 2999):
        device, flashing = device_of(name, usb, extensions)
        device.flash.stuck, data = offset, image(3000)
        with pytest.raises(Mismatch) as failure:
            flash_device(device, flashing, data)
        assert failure.value.address == flashing.origin + offset
        assert (failure.value.expected, failure.value.found) == (data[offset], data[offset] ^ 0x10)
    device, flashing = device_of(name, usb, extensions)
    device.flash.ignores = True
    with pytest.raises(WriteIgnored, match="pretends"):
        flash_device(device, flashing, image(3000))
    assert not device.started


@ALL
def test_a_cut_line_says_how_the_chip_is_left(name: str, usb: bool, extensions: str) -> None:
    device, flashing = device_of(name, usb, extensions)
    with pytest.raises((NoAnswer, Damaged, Garbage), match=r"not whole(.|\n)*flash again"):
        flash_device(device, flashing, image(3000), Faults(cut=2500))
    assert not device.started
    assert device.flash.read(flashing.origin, 64) != image(3000)[:64]


@pytest.mark.parametrize("flashing", (SAMD21, SAM3X), ids=("samd21", "sam3x"))
def test_no_boot_loader(flashing: Flashing) -> None:
    with pytest.raises(Echo, match="joined"):
        flash_device(Echoing(), flashing, image(10))
    with pytest.raises(Garbage, match="not this boot loader"):
        flash_device(Babbling(), flashing, image(10))
    with pytest.raises((NoAnswer, LinkLost), match="reset"):
        flash_device(device_of("samd21")[0], flashing, image(10), Faults(cut=0))


@CHIPS
def test_erase(name: str) -> None:
    device, flashing = device_of(name)
    erase_device(device, flashing)
    assert not bytes(device.flash.data).strip(b"\xff")


def test_the_device_refuses_what_the_data_sheet_forbids() -> None:
    """Bytes into flash hang the chip, a page without EEFC's wait states and commands without the key do nothing."""
    chip: Chip = SamD(SAMD51, big=True)
    chip.set_register(0x41004004, 0x0001, 0xFFFF)
    assert not chip.flash.erased
    chip = SamE(SAM3X)
    chip.store(SAM3X.origin, 4, 0)
    chip.set_register(0x400E0A04, 0x5A000003, 0xFFFFFFFF)
    assert chip.refusals == 1 and not chip.flash.erased


def test_extensions_only_where_there_are_some(monkeypatch: pytest.MonkeyPatch) -> None:
    device, flashing = device_of("samd21", True, "X")
    monkeypatch.setattr(SambaLink, "checksum", lambda *_: pytest.fail("asked for a checksum"))
    flash_device(device, flashing, image(300))
    assert not any(command[0] in "YZX" for command in device.commands)
    assert device.flash.read(flashing.origin, 300) == image(300)


def test_nothing_is_flashed_by_luck() -> None:
    device, flashing = device_of("samd21", False, "XYZ")
    try:
        flash_device(device, flashing, image(3000), Faults(flipped=0.001, seed=5))
    except FlashError:
        assert not device.started
    else:
        assert device.flash.read(flashing.origin, 3000) == image(3000)
