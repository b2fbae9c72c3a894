# SPDX-License-Identifier: Apache-2.0
"""WCH's boot loader, and our device against frames recorded from a CH32V307."""

from __future__ import annotations

import pytest

from tests.flash.bench import erase_device, flash_device, flashing_of, image, small
from tests.flash.line import Faults
from tests.flash.wch_device import FACTORY, WchDevice, key_of, reply
from toolchain.flash.errors import Damaged, FlashError, Mismatch, NoAnswer, Protected, WrongChip

V307 = flashing_of("ch32v307")
V003 = flashing_of("ch32v003")


def test_the_recorded_identification() -> None:
    """Request and reply as jmaselbas/wch-isp#5 has them, from a CH32V307 (its host sends device type 0)."""
    device = WchDevice(V307, chip_id=0x71)
    request = bytes.fromhex("57ab a1 1200 0000 4d435520495350202620574348 2e434e".replace(" ", ""))
    answer = device.answer(0xA1, request[5:])
    assert answer is not None
    assert reply(0xA1, answer).hex() == "55aaa10002007117" + "2b"
    device = WchDevice(V307)
    flash_device(device, V307, image(10))
    assert device.requests[0][:6] + b"\0" + device.requests[0][7:-1] == request
    assert sum(request[2:]) & 0xFF == 0xAB


def test_the_recorded_key_exchange() -> None:
    """Seed, unique id and the answer's sum as WCH's own program and a CH573 exchanged them (frank-zago/isp55e0#2)."""
    seed = bytes.fromhex("595a59f73ff4897276cbc7e508342ba91ecdc233c48a9c2a5043a7799177efead149e2113d6b83b3374a983f")
    assert sum(key_of(seed, 0x73, bytes.fromhex("0b5ddce4c284a9c6"))) & 0xFF == 0x4A


@pytest.mark.parametrize("size", (1, 7, 55, 56, 57, 1023, 1024, 1025, 20000))
def test_writes_every_byte(size: int) -> None:
    device, data = WchDevice(V307), image(size)
    before = bytes(device.flash.data)
    outcome = flash_device(device, V307, data)
    sectors = max(8, -(-size // 1024))
    assert device.flash.read(V307.origin, size) == data
    assert device.flash.erased == list(range(sectors))
    assert device.flash.data[sectors * 1024 :] == before[sectors * 1024 :]
    assert outcome.started and device.started and not device.flash.overwritten


def test_fills_a_small_chip() -> None:
    device, data = WchDevice(V003, chip_id=0x30, family=0x21), image(16 * 1024)
    flash_device(device, V003, data)
    assert bytes(device.flash.data) == data


def test_a_loader_that_ends_without_an_answer() -> None:
    device = WchDevice(V307, silent_end=True)
    assert flash_device(device, V307, image(10)).started


@pytest.mark.parametrize(("chip_id", "family"), ((0x30, 0x17), (0x70, 0x19)))
def test_another_chip_is_left_alone(chip_id: int, family: int) -> None:
    device = WchDevice(V307, chip_id, family)
    with pytest.raises(WrongChip, match="of family 0x17"):
        flash_device(device, V307, image(10))
    assert not device.flash.erased


def test_protection() -> None:
    closed = bytearray(FACTORY)
    closed[0] = 0xFF
    device, data = WchDevice(V307, options=bytearray(closed)), image(100)
    with pytest.raises(Protected, match="unprotect=yes"):
        flash_device(device, V307, data)
    assert not device.flash.erased
    flash_device(device, V307, data, unprotect=True)
    assert device.flash.read(V307.origin, 100) == data
    with pytest.raises(Protected, match="still protected"):
        flash_device(WchDevice(V307, options=closed, keeps_protection=True), V307, data, unprotect=True)


def test_a_wrong_bit_and_ignored_writes_are_found() -> None:
    device = WchDevice(V307)
    device.flash.stuck = 100
    with pytest.raises(Mismatch, match="in the 56 bytes at address 0x8000038"):
        flash_device(device, V307, image(1000))
    device = WchDevice(V307)
    device.flash.ignores = True
    with pytest.raises(Mismatch, match="at address 0x8000000"):
        flash_device(device, V307, image(1000))
    assert not device.started


def test_a_cut_line_says_how_the_chip_is_left() -> None:
    device = WchDevice(V307)
    with pytest.raises((NoAnswer, Damaged), match=r"not whole(.|\n)*flash again"):
        flash_device(device, V307, image(3000), Faults(cut=2000))
    assert not device.started


def test_a_disturbed_line_begins_again() -> None:
    device, data = WchDevice(V307), image(2000)
    try:
        outcome = flash_device(device, V307, data, Faults(lost=0.0005, seed=3))
    except FlashError:
        assert not device.started
    else:
        assert outcome.repairs and device.flash.read(V307.origin, 2000) == data


def test_erase() -> None:
    chip = small(V307, 20)
    device = WchDevice(chip)
    erase_device(device, chip)
    assert bytes(device.flash.data) == b"\xff" * 20 * 1024
