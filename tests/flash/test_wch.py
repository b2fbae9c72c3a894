# SPDX-License-Identifier: Apache-2.0
"""WCH's boot loader, and our device against frames recorded from a CH32V307."""

from __future__ import annotations

import pytest

from tests.flash.bench import PATIENCE, erase_device, flash_device, flashing_of, image, small
from tests.flash.line import Faults, plugged
from tests.flash.wch_device import FACTORY, WchDevice, key_of, reply
from toolchain.flash.errors import Damaged, FlashError, Mismatch, NoAnswer, Protected, WrongChip
from toolchain.flash.port import open_port
from toolchain.flash.protocol import Identity
from toolchain.flash.wch import Command, make, request

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


@pytest.mark.parametrize(
    ("chip_id", "family", "recorded", "loader"),
    (
        (0x80, 0x19, "1f00 ff003fc000ff00ffffffffff 00020500 d04088263b38939f", "2.50"),
        (0x5E, 0x23, "1f00 ff001fe000ff00ffffffffff 00020600 cdaba1716cbcdad9", "2.60"),
    ),
)
def test_the_recorded_configurations(chip_id: int, family: int, recorded: str, loader: str) -> None:
    """What a CH32V208 and a CH32X035 answered (ch32-rs/wchisp#29 and #68): both protected, as they come."""
    payload = bytes.fromhex(recorded)
    device = WchDevice(
        V307, chip_id, family, options=bytearray(payload[2:14]), version=payload[14:18], uid=payload[18:]
    )
    device.identified = True
    assert device.answer(0xA7, b"\x1f\0") == payload
    device.identified = False
    with plugged(device) as plug, open_port(plug.name) as port:
        identity = make(port, V307, 115200, PATIENCE).connect()
    assert identity == Identity(f"WCH ISP {loader}", chip_id, family, None, protected=True)


def test_the_recorded_frames_of_a_uart() -> None:
    """Read and write of the configuration, as WCH's own program and a CH573 exchanged them (frank-zago/isp55e0#2)."""
    options, uid = bytes.fromhex("fffffffffeffffff4f3f0040"), bytes.fromhex("0b5ddce4c284a9c6")
    device = WchDevice(V307, options=bytearray(options), version=bytes((0, 2, 8, 0)), uid=uid)
    device.identified = True
    answer = device.answer(0xA7, b"\x1f\0")
    assert answer is not None
    assert reply(0xA7, answer).hex() == "55aaa7001a00" + "1f00" + options.hex() + "00020800" + uid.hex() + "8c"
    assert request(Command.READ_CONFIG, b"\x1f\0").hex() == "57aba702001f00" + "c8"
    written = b"\x07\0" + bytes.fromhex("fffffffffeffffff4f3f0000")
    assert request(Command.WRITE_CONFIG, written).hex() == "57aba80e00" + written.hex() + "42"
    answer = device.answer(0xA8, written)
    assert answer is not None and reply(0xA8, answer).hex() == "55aaa80002000000" + "aa"


def test_the_recorded_sum_of_a_key_of_zeros() -> None:
    """A CH32V203's answer to 30 zeros (jmaselbas/wch-isp#3), which our client asks for."""
    uid = bytes.fromhex("cdab666755bc88cf")
    assert sum(key_of(bytes(30), 0x32, uid)) & 0xFF == 0x9A
    device, data = WchDevice(V307, chip_id=0x70, uid=uid), image(100)
    flash_device(device, V307, data)
    assert device.key is None and device.flash.read(V307.origin, 100) == data


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
