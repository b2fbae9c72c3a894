# SPDX-License-Identifier: Apache-2.0
"""XMODEM and YMODEM with lrzsz, both ways: our sender to its receivers, its senders to our receiver."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.flash.bench import flash_device, flashing_of, image
from tests.flash.line import Faults, plugged
from tests.flash.program import ProgramDevice
from tests.flash.xmodem_device import XmodemDevice
from toolchain.flash.errors import FlashError

XMODEM = replace(flashing_of("bluepill"), protocol="xmodem", word=1)
YMODEM = replace(XMODEM, protocol="ymodem")
SECONDS = 60
PAD = b"\x1a"


@pytest.mark.parametrize("size", (1, 127, 128, 129, 5000, 40000))
def test_rx_takes_what_we_send(size: int, tmp_path: Path) -> None:
    device, data = ProgramDevice((_lrzsz("rx"), "-q", "-c", "firmware.bin"), tmp_path), image(size)
    flash_device(device, XMODEM, data)
    received = (tmp_path / "firmware.bin").read_bytes()
    assert device.code == 0
    assert received[:size] == data and not received[size:].strip(PAD) and len(received) - size < 128


@pytest.mark.parametrize("size", (1, 1023, 1024, 1025, 40000))
def test_rb_takes_what_we_send(size: int, tmp_path: Path) -> None:
    device, data = ProgramDevice((_lrzsz("rb"), "-q"), tmp_path), image(size)
    flash_device(device, YMODEM, data)
    assert (tmp_path / "firmware.bin").read_bytes() == data


def test_rb_on_a_disturbed_line(tmp_path: Path) -> None:
    device, data = ProgramDevice((_lrzsz("rb"), "-q"), tmp_path), image(5000)
    try:
        flash_device(device, YMODEM, data, Faults(flipped=0.0002, seed=2))
    except FlashError as error:
        assert "not whole" in str(error)
    else:
        assert (tmp_path / "firmware.bin").read_bytes() == data


@pytest.mark.parametrize(("program", "named"), (("sx", False), ("sb", True)))
@pytest.mark.parametrize("arguments", ((), ("-k",)), ids=("128", "1024"))
def test_the_receiver_takes_files_of_lrzsz(
    program: str, named: bool, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    command = _lrzsz(program)
    data, file = image(5000), tmp_path / "image.bin"
    file.write_bytes(data)
    device = XmodemDevice(named=named, ask_s=1.0)
    with plugged(device) as plug:
        end = os.open(plug.name, os.O_RDWR | os.O_NOCTTY)
        try:
            done = subprocess.run(
                [command, "-q", *arguments, str(file)],
                stdin=end,
                stdout=end,
                stderr=subprocess.PIPE,
                timeout=SECONDS,
                check=False,
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
