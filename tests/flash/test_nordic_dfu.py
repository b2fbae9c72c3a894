# SPDX-License-Identifier: Apache-2.0
"""Nordic's serial DFU: every byte, the order of packets, refusals and bad lines."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.flash.bench import erase_device, flash_device, flashing_of, image, small
from tests.flash.line import Faults
from tests.flash.nordic_dfu_device import NordicDfuDevice
from tests.flash.strangers import Babbling
from toolchain.flash.errors import Damaged, FlashError, Garbage, LinkLost, Mismatch, NoAnswer, Refused
from toolchain.flash.nordic_dfu import acknowledged, init_packet, packet
from toolchain.flash.port import Port
from toolchain.flash.protocol import Proof

FEATHER = small(flashing_of("feather_nrf52832"), 8)
FULL = 8 * 4096


@pytest.mark.parametrize("size", (1, 7, 511, 512, 513, 4095, 4096, 4097, FULL))
def test_every_byte_arrives(size: int) -> None:
    device, data = NordicDfuDevice(FEATHER), image(size)
    before = bytes(device.flash.data)
    outcome = flash_device(device, FEATHER, data)
    pages = -(-size // 4096)
    assert device.flash.read(FEATHER.origin, size) == data
    assert device.flash.erased == list(range(pages))
    assert device.flash.data[pages * 4096 :] == before[pages * 4096 :]
    assert device.started and outcome.started and outcome.proof is Proof.TRANSFER
    assert not device.flash.overwritten and not device.restarts and not device.ignored


@pytest.mark.parametrize("expected", range(8))
def test_a_loader_that_has_counted_already(expected: int) -> None:
    device, data = NordicDfuDevice(FEATHER, expected=expected), image(1000)
    flash_device(device, FEATHER, data)
    assert device.flash.read(FEATHER.origin, 1000) == data and device.started


@pytest.mark.parametrize("expected", range(8))
def test_a_transfer_that_was_cut_off_before(expected: int) -> None:
    device, data = NordicDfuDevice(FEATHER, state="data", expected=expected), image(1000)
    flash_device(device, FEATHER, data)
    assert device.flash.read(FEATHER.origin, 1000) == data
    assert device.started and device.restarts == 1


@pytest.mark.parametrize("size", (512, 1024, 1536, 2048, 2560, 3072, 3584, 4096))
def test_a_loader_that_listens_again_after_its_restart(size: int) -> None:
    device, data = NordicDfuDevice(FEATHER, lingers=True), image(size)
    flash_device(device, FEATHER, data)
    assert device.flash.read(FEATHER.origin, size) == data and device.started


@pytest.mark.parametrize("expected", range(8))
def test_a_board_of_another_type(expected: int) -> None:
    device = NordicDfuDevice(FEATHER, device_type=0x0053, expected=expected)
    with pytest.raises(Refused, match=r"restarted in the middle(.|\n)*right board"):
        flash_device(device, FEATHER, image(1000))
    assert not device.started


def test_a_chip_with_less_flash() -> None:
    device = NordicDfuDevice(FEATHER)
    with pytest.raises(Refused, match="restarts when it is told the size"):
        flash_device(device, flashing_of("feather_nrf52832"), image(FULL + 4))
    assert not device.flash.erased


@pytest.mark.parametrize("size", (512, 1024, 1536, 2048, 2560, 3072, 3584, 4096))
def test_a_wrong_bit_and_ignored_writes_are_found(size: int) -> None:
    device = NordicDfuDevice(FEATHER)
    device.flash.stuck = 100
    with pytest.raises(Mismatch, match="differs from the image"):
        flash_device(device, FEATHER, image(size))
    device = NordicDfuDevice(FEATHER)
    device.flash.ignores = True
    with pytest.raises(Mismatch, match="differs from the image"):
        flash_device(device, FEATHER, image(size))
    assert not device.started


def test_lost_packets_are_sent_again() -> None:
    device, data = NordicDfuDevice(FEATHER), image(3000)
    flash_device(device, FEATHER, data, Faults(lost=0.0008, seed=4))
    assert device.flash.read(FEATHER.origin, 3000) == data and device.started


def test_a_cut_line_says_how_the_chip_is_left() -> None:
    device = NordicDfuDevice(FEATHER)
    with pytest.raises(Damaged, match=r"the block at 0x26[0-9a-f]+ was written(.|\n)*not whole(.|\n)*flash again"):
        flash_device(device, FEATHER, image(3000), Faults(cut=2000))
    assert not device.started
    with pytest.raises(NoAnswer, match=r"no answer(.|\n)*DFU"):
        flash_device(device, FEATHER, image(3000), Faults(cut=0))


def test_a_usb_port_vanishes_with_the_boot_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    device, data, write = NordicDfuDevice(FEATHER), image(1000), Port.write

    def unless(gone: Callable[[], bool]) -> Callable[[Port, bytes], None]:
        def one(port: Port, sent: bytes) -> None:
            if gone():
                raise LinkLost("the link was lost")
            write(port, sent)

        return one

    monkeypatch.setattr(Port, "write", unless(lambda: device.started))
    assert flash_device(device, FEATHER, data).started
    device = NordicDfuDevice(FEATHER)
    monkeypatch.setattr(Port, "write", unless(lambda: device.received == len(data)))
    with pytest.raises(LinkLost, match=r"link was lost(.|\n)*not whole"):
        flash_device(device, FEATHER, data)
    assert not device.started


def test_there_is_no_erasing_alone() -> None:
    with pytest.raises(Refused, match="erases only what it then writes"):
        erase_device(NordicDfuDevice(FEATHER), FEATHER)


@pytest.mark.parametrize("text", (b"\xc0" * 20, b"\xc0\0\0\0\1\xc0"))
def test_nonsense_for_ever(text: bytes) -> None:
    begun = time.monotonic()
    with pytest.raises(Garbage):
        flash_device(Babbling(text), FEATHER, image(10))
    assert time.monotonic() - begun < 20


def test_acknowledgements_for_ever() -> None:
    """A device that always expects the same is not believed."""
    with pytest.raises(FlashError):
        flash_device(Babbling(b"\xc0\x10\0\0\xf0\xc0"), FEATHER, image(1000))


def test_packets() -> None:
    """The start packet for 1000 bytes as adafruit-nrfutil 0.5.3 sends it first."""
    payload = bytes.fromhex("03000000 04000000 00000000 00000000 e8030000")
    assert packet(1, payload).hex() == "c0d14e01e0" + payload.hex() + "12f7c0"
    assert packet(7, b"\xc0\xdb")[5:9] == b"\xdb\xdc\xdb\xdd"
    assert acknowledged(bytes.fromhex("100000f0")) == 2
    assert acknowledged(bytes.fromhex("100000f1")) is None and acknowledged(b"\xc0\0\0\x40") is None
    assert init_packet(0x52, b"").hex() == "5200ffffffffffff0100feffffff0000"


def test_another_type_of_board_is_told() -> None:
    device, data = NordicDfuDevice(FEATHER, device_type=0xFFFF), image(100)
    flash_device(device, replace(FEATHER, family=0), data)
    assert device.started
