# SPDX-License-Identifier: Apache-2.0
"""XMODEM and YMODEM: our sender with our receiver."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.flash.bench import flash_device, flashing_of, image
from tests.flash.line import Faults
from tests.flash.xmodem_device import XmodemDevice
from toolchain.flash.errors import FlashError, NoAnswer, Refused
from toolchain.flash.protocol import Proof

XMODEM = replace(flashing_of("bluepill"), protocol="xmodem", word=1)
YMODEM = replace(XMODEM, protocol="ymodem")


@pytest.mark.parametrize("flashing", (XMODEM, YMODEM), ids=lambda f: f.protocol)
@pytest.mark.parametrize("size", (1, 127, 128, 129, 1024, 1025, 40000))
def test_every_byte_arrives(flashing: object, size: int) -> None:
    assert isinstance(flashing, type(XMODEM))
    device, data = XmodemDevice(named=flashing.protocol == "ymodem"), image(size)
    outcome = flash_device(device, flashing, data)
    assert outcome.proof is Proof.TRANSFER
    assert device.done and device.received[:size] == data
    assert not device.received[size:].strip(b"\x1a")


@pytest.mark.parametrize("flashing", (XMODEM, YMODEM), ids=lambda f: f.protocol)
@pytest.mark.parametrize("faults", (Faults(lost=0.002), Faults(flipped=0.002), Faults(stall_s=0.2)))
def test_a_disturbed_line(flashing: object, faults: Faults) -> None:
    assert isinstance(flashing, type(XMODEM))
    device, data = XmodemDevice(named=flashing.protocol == "ymodem"), image(3000)
    try:
        flash_device(device, flashing, data, faults)
    except FlashError:
        return
    assert device.done and device.received[:3000] == data


def test_a_receiver_that_cancels_and_a_cut() -> None:
    with pytest.raises(Refused, match="cancels at block 9"):
        flash_device(XmodemDevice(limit=1024), XMODEM, image(3000))
    with pytest.raises(NoAnswer, match=r"not acknowledged(.|\n)*not whole"):
        flash_device(XmodemDevice(), XMODEM, image(3000), Faults(cut=1500))
