# SPDX-License-Identifier: Apache-2.0
"""Adafruit's own program flashes the emulated boot loader, and makes the same init packet as we do."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.flash.bench import PEERS, flashing_of, image, small
from tests.flash.line import plugged
from tests.flash.nordic_dfu_device import NordicDfuDevice
from toolchain.flash.nordic_dfu import init_packet

FEATHER = small(flashing_of("feather_nrf52832"), 8)
SECONDS = 60
PROGRAM = """
import sys, serial
from nordicsemi.__main__ import cli
ignore = lambda self: None  # a pseudo terminal has no modem lines
serial.Serial._update_rts_state = serial.Serial._update_dtr_state = ignore
cli()
"""


@pytest.mark.parametrize("size", (4, 512, 5000))
def test_adafruit_nrfutil(size: int, tmp_path: Path) -> None:
    data, package = image(size), tmp_path / "package.zip"
    (tmp_path / "firmware.bin").write_bytes(data)
    options = ("--dev-type", "0x0052", "--application", "firmware.bin", package.name)
    _nrfutil(tmp_path, "dfu", "genpkg", *options)
    with zipfile.ZipFile(package) as files:
        assert files.read("firmware.dat") == init_packet(0x52, data)[:14]
    device = NordicDfuDevice(FEATHER)
    with plugged(device) as plug:
        told = _nrfutil(tmp_path, "dfu", "serial", "-pkg", package.name, "-p", plug.name, "-b", "115200", "-sb")
    assert "Device programmed." in told
    assert device.flash.read(FEATHER.origin, size) == data
    assert device.started and not device.ignored and not device.restarts


def _nrfutil(folder: Path, *arguments: str) -> str:
    if not list(PEERS.glob("lib/python*/site-packages/nordicsemi")):
        pytest.skip("needs adafruit-nrfutil: python -m venv build/peers; build/peers/bin/pip install adafruit-nrfutil")
    command = [str(PEERS / "bin" / "python"), "-c", PROGRAM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
