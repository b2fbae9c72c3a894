# SPDX-License-Identifier: Apache-2.0
"""Independent clients flash the emulated LPC: it is what it claims to be."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from boards.flashing import Flashing
from tests.flash.bench import PEERS, flashing_of, image
from tests.flash.line import plugged
from tests.flash.lpc_device import LpcDevice

LPC1768, LPC845 = flashing_of("lpc1768"), flashing_of("lpc845brk")
SECONDS = 100


def test_lpc21isp(tmp_path: Path) -> None:
    """It compares on the chip, from byte 64 on, since the ROM hides the first."""
    program = shutil.which("lpc21isp")
    if program is None:
        pytest.skip("needs lpc21isp: apt-get install lpc21isp")
    device = LpcDevice(LPC1768)
    told = _check([program, "-bin", "-verify", "IMAGE", "PORT", "115200", "12000"], tmp_path, device, LPC1768)
    assert "Verified correct" in told


def test_nxpprog(tmp_path: Path) -> None:
    """It compares on the chip and reads back, the vectors too: so nothing is hidden here."""
    device = LpcDevice(LPC1768, hidden=0)
    options = ["--device", "PORT", "--cpu", "lpc1768", "--osfreq", "12000", "--verify"]
    told = _check([_peer("nxpprog"), "--binary", "IMAGE", *options], tmp_path, device, LPC1768)
    assert "Programmed successfully" in told and "Verified successfully" in told


@pytest.mark.parametrize("tells_ok", (False, True))
def test_ispprogrammer(tmp_path: Path, tells_ok: bool) -> None:
    """For the LPC8xx only: plain data, checked by the chip's CRC."""
    device = LpcDevice(LPC845, chip_id=0x8451, plain=True, hidden=0, tells_ok=tells_ok)
    options = ["-d", "PORT", "-b", "115200", "write-image", "--imagein", "IMAGE"]
    _check([_peer("ispprogrammer"), *options], tmp_path, device, LPC845)


def _peer(name: str) -> str:
    program = PEERS / "bin" / name
    if not program.is_file():
        pytest.skip(f"needs {name}: python -m venv build/peers; build/peers/bin/pip install {name}")
    return str(program)


def _check(command: list[str], folder: Path, device: LpcDevice, flashing: Flashing) -> str:
    """The image's vectors sum to zero, so the clients leave them as they are."""
    vectors = struct.unpack("<7I", image(28))
    data = struct.pack("<8I", *vectors, -sum(vectors) & 0xFFFFFFFF) + image(4969, 1)
    file = folder / "image.bin"
    file.write_bytes(data)
    with plugged(device) as plug:
        real = {"IMAGE": str(file), "PORT": plug.name}
        done = subprocess.run(
            [real.get(word, word) for word in command], capture_output=True, text=True, timeout=SECONDS, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert device.flash.read(flashing.origin, len(data)) == data
    assert not device.flash.overwritten
    assert device.started == 0
    return done.stdout + done.stderr
