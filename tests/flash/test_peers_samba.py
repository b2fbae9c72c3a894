# SPDX-License-Identifier: Apache-2.0
"""An independent client flashes the emulated SAM chips: they are what they claim to be. Without Arduino's extensions it
runs a program of its own in the chip's RAM."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.flash.bench import image
from tests.flash.line import plugged
from tests.flash.sam_rigs import MONITORS, device_of

SECONDS = 100


@pytest.mark.parametrize(("name", "usb", "extensions"), MONITORS)
def test_bossac(name: str, usb: bool, extensions: str, tmp_path: Path) -> None:
    program = shutil.which("bossac")
    if program is None:
        pytest.skip("needs bossac: apt-get install bossa-cli")
    device, flashing = device_of(name, usb, extensions)
    data, file = image(5001), tmp_path / "image.bin"
    file.write_bytes(data)
    offset = flashing.origin if name.startswith("samd") else 0
    options = [f"-U{int(usb)}", f"--offset={offset:#x}", "-e", "-w", "-v", "-b", "-R"]
    with plugged(device) as plug:
        done = subprocess.run(
            [program, "-p", plug.name, *options, str(file)],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        end = time.monotonic() + 5
        while not device.started and time.monotonic() < end:
            time.sleep(0.01)  # the reset is not answered
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Verify successful" in done.stdout
    assert device.flash.read(flashing.origin, len(data)) == data
    assert not device.flash.overwritten and not device.chip.refusals
    assert device.fault is None and device.started
