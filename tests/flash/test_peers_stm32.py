# SPDX-License-Identifier: Apache-2.0
"""Independent clients flash the emulated STM32: it is what it claims to be."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.flash.bench import PEERS, flashing_of, image
from tests.flash.line import plugged
from tests.flash.stm32_device import Stm32Device

FLASHING = flashing_of("bluepill")
SECONDS = 60
LOADER = """
import sys, serial
from stm32loader.main import main
ignore = lambda self: None  # a pseudo terminal has no modem lines
serial.Serial._update_rts_state = serial.Serial._update_dtr_state = ignore
main(*sys.argv[1:])
"""


@pytest.mark.parametrize("extended", (False, True))
def test_stm32flash(tmp_path: Path, extended: bool) -> None:
    program = shutil.which("stm32flash")
    if program is None:
        pytest.skip("needs stm32flash: apt-get install stm32flash")
    _check([program, "-m", "8n1", "-w", "IMAGE", "-v", "-g", "0x08000000", "PORT"], tmp_path, extended)


@pytest.mark.parametrize("extended", (False, True))
def test_stm32loader(tmp_path: Path, extended: bool) -> None:
    python = PEERS / "bin" / "python"
    if not list(PEERS.glob("lib/python*/site-packages/stm32loader")):
        pytest.skip("needs stm32loader: python -m venv build/peers; build/peers/bin/pip install stm32loader")
    options = ["-p", "PORT", "-P", "none", "-f", "F1", "-e", "-w", "-v", "-g", "0x08000000", "IMAGE"]
    _check([str(python), "-c", LOADER, *options], tmp_path, extended)


def _check(command: list[str], folder: Path, extended: bool) -> None:
    data = image(5001)
    file = folder / "image.bin"
    file.write_bytes(data)
    device = Stm32Device(FLASHING, extended=extended)
    with plugged(device) as plug:
        real = {"IMAGE": str(file), "PORT": plug.name}
        done = subprocess.run(
            [real.get(word, word) for word in command], capture_output=True, text=True, timeout=SECONDS, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert device.flash.read(FLASHING.origin, len(data)) == data
    assert not device.flash.overwritten
    assert device.started == FLASHING.origin
