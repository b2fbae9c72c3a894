# SPDX-License-Identifier: Apache-2.0
"""Independent programs for MCUboot: `smpmgr` flashes the emulated server, `imgtool` accepts our images."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.flash.bench import PEERS, flashing_of, image, small
from tests.flash.line import plugged
from tests.flash.smp_device import SmpDevice
from toolchain.images.mcuboot import hash_of, with_header

SLOT = small(flashing_of("nrf52840dk_mcuboot"), 10)
SECONDS = 60


@pytest.mark.parametrize("tells", (True, False))
@pytest.mark.parametrize("size", (1, 5001))
def test_smpmgr_uploads(tells: bool, size: int, tmp_path: Path) -> None:
    device, data = SmpDevice(SLOT, tells=tells), with_header(image(size))
    told = _smpmgr(device, "image", "upload", str(_file(data, tmp_path)))
    assert device.flash.read(SLOT.origin, len(data)) == data, told
    assert not device.flash.overwritten
    told = _smpmgr(device, "image", "state-read")
    assert hash_of(data).hex().upper() in "".join(told.split())
    _smpmgr(device, "os", "reset")
    assert device.started


def test_smpmgr_upgrades_an_application(tmp_path: Path) -> None:
    device, data = SmpDevice(SLOT, application=True), with_header(image(5001))
    _smpmgr(device, "upgrade", "--confirm", str(_file(data, tmp_path)))
    assert device.flash.read(SLOT.origin, len(data)) == data
    assert device.chosen == hash_of(data) and device.started


@pytest.mark.parametrize("size", (1, 5001))
def test_imgtool_accepts_our_image(size: int, tmp_path: Path) -> None:
    file = _file(with_header(image(size)), tmp_path)
    done = subprocess.run([_peer("imgtool"), "verify", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "correctly validated" in done.stdout, done.stdout + done.stderr
    assert f"Image digest: {hash_of(file.read_bytes()).hex()}" in done.stdout


def _file(data: bytes, folder: Path) -> Path:
    file = folder / "image.bin"
    file.write_bytes(data)
    return file


def _smpmgr(device: SmpDevice, *arguments: str) -> str:
    with plugged(device) as plug:
        command = [_peer("smpmgr"), "--port", plug.name, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _peer(program: str) -> str:
    found = PEERS / "bin" / program
    if not found.is_file():
        pytest.skip(f"needs {program}: python -m venv build/peers; build/peers/bin/pip install {program}")
    return str(found)
