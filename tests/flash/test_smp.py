# SPDX-License-Identifier: Apache-2.0
"""MCUmgr over serial: uploads to MCUboot and to applications, and what goes wrong."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from compiler.errors import UserError
from tests.flash.bench import erase_device, flash_device, flashing_of, image, small
from tests.flash.line import Faults
from tests.flash.smp_device import SmpDevice
from tests.flash.strangers import Babbling
from toolchain.flash.errors import Garbage, Mismatch, NoAnswer, Refused, TooLong, WrongChip
from toolchain.flash.protocol import Proof
from toolchain.flash.smp_wire import LINE_TEXT, Assembler, lines
from toolchain.images.mcuboot import HEADER_BYTES, hash_of, with_header

SLOT = small(flashing_of("nrf52840dk_mcuboot"), 10)
ROOM = 10 * 4096 - len(with_header(b""))
"""Bytes of a program that fills the slot."""


@pytest.mark.parametrize("size", (1, 7, 4095, 4096, 4097, ROOM))
def test_every_byte_arrives(size: int) -> None:
    device, data = SmpDevice(SLOT), with_header(image(size))
    outcome = flash_device(device, SLOT, data)
    assert device.flash.read(SLOT.origin, len(data)) == data
    assert outcome.proof is Proof.ON_CHIP and outcome.started and device.started
    assert not device.flash.overwritten
    assert device.longest <= LINE_TEXT + 3 and device.largest <= device.buffer


@pytest.mark.parametrize("buffer", (93, 128, 384, 1024, 4096))
def test_a_frame_is_as_large_as_the_buffer(buffer: int) -> None:
    device, data = SmpDevice(SLOT, buffer=buffer), with_header(image(9000))
    flash_device(device, SLOT, data)
    assert device.flash.read(SLOT.origin, len(data)) == data
    assert buffer - 8 < device.largest <= buffer


@pytest.mark.parametrize("buffer", (300, 512))
def test_a_loader_that_does_not_tell_its_buffer(buffer: int) -> None:
    device, data = SmpDevice(SLOT, buffer=buffer, tells=False), with_header(image(3000))
    flash_device(device, SLOT, data)
    assert device.flash.read(SLOT.origin, len(data)) == data


def test_a_loader_without_hashes() -> None:
    device, data = SmpDevice(SLOT, hashes=False), with_header(image(3000))
    flash_device(device, SLOT, data)
    assert device.started


def test_an_application_is_told_to_start_the_new_image_for_good() -> None:
    device, data = SmpDevice(SLOT, application=True), with_header(image(3000))
    assert flash_device(device, SLOT, data).started
    assert device.chosen == hash_of(data) and device.started


def test_what_is_no_mcuboot_image_is_not_sent() -> None:
    device = SmpDevice(SLOT)
    with pytest.raises(UserError, match="no MCUboot header"):
        flash_device(device, SLOT, image(3000))
    assert not device.flash.erased


def test_a_slot_that_is_too_small() -> None:
    device, data = SmpDevice(SLOT), with_header(image(ROOM + 1))
    wide = flashing_of("nrf52840dk_mcuboot")
    with pytest.raises(WrongChip, match="larger than this chip's flash"):
        flash_device(device, wide, data)
    device.tells = False
    with pytest.raises(Refused, match=r"refuses: upload(.|\n)*error 3 invalid(.|\n)*may hold no program"):
        flash_device(device, wide, data)
    device.application = True
    with pytest.raises(Refused, match="error 30 invalid image too large"):
        flash_device(device, wide, data)
    assert not device.flash.erased


def test_a_loader_that_wants_signatures() -> None:
    device = SmpDevice(SLOT, signed=True)
    with pytest.raises(Refused, match=r"will not start this program(.|\n)*signed"):
        flash_device(device, SLOT, with_header(image(3000)))
    assert not device.started


def test_another_slots_image_is_not_ours() -> None:
    """MCUboot without hashes, whose second slot still holds an older image."""
    other: dict[str, object] = {"slot": 1, "version": "0.9.0", "bootable": True}
    device = SmpDevice(SLOT, signed=True, hashes=False, others=[other])
    with pytest.raises(Refused, match="finds no valid image"):
        flash_device(device, SLOT, with_header(image(3000)))


def test_a_wrong_bit_and_ignored_writes_are_found() -> None:
    device = SmpDevice(SLOT)
    device.flash.stuck = 2000
    with pytest.raises(Refused, match="no valid image"):
        flash_device(device, SLOT, with_header(image(3000)))
    device = SmpDevice(SLOT)
    data = with_header(image(3000))
    flash_device(device, SLOT, data)
    device.started, device.flash.ignores = False, True
    with pytest.raises(Mismatch, match="differs from the image"):
        flash_device(device, SLOT, with_header(image(3000, seed=1)))
    assert not device.started


def test_lost_frames_are_sent_again() -> None:
    device, data = SmpDevice(SLOT), with_header(image(3000))
    flash_device(device, SLOT, data, Faults(lost=0.0005, seed=2))
    assert device.flash.read(SLOT.origin, len(data)) == data


def test_a_cut_line_says_how_the_chip_is_left() -> None:
    device = SmpDevice(SLOT)
    with pytest.raises(NoAnswer, match=r"no answer(.|\n)*not whole(.|\n)*flash again"):
        flash_device(device, SLOT, with_header(image(3000)), Faults(cut=3000))
    assert not device.started


def test_there_is_no_erasing_alone() -> None:
    with pytest.raises(Refused, match="erases only what it then writes"):
        erase_device(SmpDevice(SLOT), SLOT)


@pytest.mark.parametrize(
    "text",
    (
        b"\x06\x09" * 30,
        b"\x06\x09AAAA\n",
        lines(b"\x01\0\0\x01\0\0\x01\x06\xbf"),
        lines(b"\x01\0\0\x02\0\0\x01\x06\xa1\xff"),
        lines(b"\x01\0\0\x01\0\0\x01\x06\x00"),
    ),
)
def test_nonsense_for_ever(text: bytes) -> None:
    begun = time.monotonic()
    with pytest.raises(Garbage):
        flash_device(Babbling(text), SLOT, with_header(image(10)))
    assert time.monotonic() - begun < 10


@dataclass
class Repeater(SmpDevice):
    """Wants the first bytes again and again."""

    def _upload(self, body: dict[str, object]) -> dict[str, object]:
        return {"rc": 0, "off": 0}


def test_a_loader_that_never_gets_enough() -> None:
    with pytest.raises((Refused, TooLong), match="again and again"):
        flash_device(Repeater(SLOT), SLOT, with_header(image(3000)))


def test_frames_in_between_other_output() -> None:
    message = bytes(range(200)) * 3
    noise = b"*** Booting MCUboot ***\r\nI: Starting"
    found = list(Assembler().feed(noise + lines(message) + b"\n\x04\x14AAAA\n" + lines(b"12345678")))
    assert found == [message, b"12345678"]
    broken = bytearray(lines(message))
    broken[200] ^= 1
    assert not list(Assembler().feed(bytes(broken)))


def test_the_frame_of_the_specification() -> None:
    """A line as PyPI's smp 4.2.0 has it in its documentation."""
    assert lines(b"Hello, world!") == b"\x06\tAA9IZWxsbywgd29ybGQhet4=\n"


def test_the_image_has_a_header_and_a_hash() -> None:
    data = with_header(b"program")
    assert data[HEADER_BYTES : HEADER_BYTES + 7] == b"program" and len(hash_of(data)) == 32
