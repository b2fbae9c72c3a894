# SPDX-License-Identifier: Apache-2.0
"""XMODEM and YMODEM: our sender with our receiver, and our receiver with lrzsz's XMODEM sender."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.flash.bench import flash_device, flashing_of, image
from tests.flash.line import Faults, plugged
from tests.flash.xmodem_device import XmodemDevice
from toolchain.flash.errors import FlashError, NoAnswer, Refused
from toolchain.flash.protocol import Proof

XMODEM = replace(flashing_of("bluepill"), protocol="xmodem", word=1)
YMODEM = replace(XMODEM, protocol="ymodem")
SECONDS = 60


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


@pytest.mark.parametrize(("program", "named"), (("sx", False),))
def test_the_receiver_takes_files_of_lrzsz(program: str, named: bool, tmp_path: Path) -> None:
    command = _lrzsz(program)
    data, file = image(5000), tmp_path / "image.bin"
    file.write_bytes(data)
    device = XmodemDevice(named=named, ask_s=1.0)
    with plugged(device) as plug:
        end = os.open(plug.name, os.O_RDWR | os.O_NOCTTY)
        try:
            done = subprocess.run(
                [command, "-q", str(file)], stdin=end, stdout=end, stderr=subprocess.PIPE, timeout=SECONDS, check=False
            )
        finally:
            os.close(end)
    assert done.returncode == 0, done.stderr
    assert device.done and device.received[:5000] == data


def _lrzsz(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip("needs lrzsz: apt-get install lrzsz")
    return found
