# SPDX-License-Identifier: Apache-2.0
"""Independent clients over bad lines: what they call a success is one, so the emulated devices hide no damage."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.flash.bench import flashing_of, image
from tests.flash.line import Faults, plugged
from tests.flash.lpc_device import LpcDevice
from tests.flash.rigs import RigDevice
from tests.flash.sam_rigs import device_of
from tests.flash.stm32_device import Stm32Device
from tests.flash.xmodem_device import XmodemDevice

SECONDS, SIZE = 60, 3000
STM32, LPC = flashing_of("bluepill"), flashing_of("lpc1768")
FAULTS = (
    *(replace(faults, seed=seed) for seed in (1, 2) for faults in (Faults(lost=0.01), Faults(flipped=0.01))),
    *(replace(faults, seed=seed) for seed in (3, 4) for faults in (Faults(lost=0.0005), Faults(flipped=0.0005))),
    Faults(stall_s=0.2),
    *(Faults(cut=cut) for cut in range(300, 3300, 600)),
)


@dataclass(frozen=True)
class Client:
    """`command` with the words PORT and IMAGE; `compares` from this byte on what it wrote. `on_line`: the line is its
    standard input and output."""

    command: tuple[str, ...]
    device: Callable[[], RigDevice]
    origin: int = 0
    compares: int = 0
    on_line: bool = False


CLIENTS = {
    "stm32flash": Client(
        ("stm32flash", "-m", "8n1", "-w", "IMAGE", "-v", "PORT"), lambda: Stm32Device(STM32), STM32.origin
    ),
    "lpc21isp": Client(
        ("lpc21isp", "-bin", "-verify", "IMAGE", "PORT", "115200", "12000"), lambda: LpcDevice(LPC), LPC.origin, 64
    ),
    "bossac": Client(
        ("bossac", "-p", "PORT", "-U0", "--offset=0x2000", "-e", "-w", "-v", "IMAGE"),
        lambda: device_of("samd21", False, "XYZ")[0],
        0x2000,
    ),
    "sx": Client(("sx", "-q", "IMAGE"), lambda: XmodemDevice(ask_s=1.0), on_line=True),
    "sb": Client(("sb", "-q", "IMAGE"), lambda: XmodemDevice(named=True, ask_s=1.0), on_line=True),
}


def succeeds(client: Client, device: RigDevice, data: bytes, faults: Faults, folder: Path) -> bool:
    """Whether the client ends in time and calls it a success."""
    program = shutil.which(client.command[0])
    if program is None:
        pytest.skip(f"needs {client.command[0]}: apt-get install stm32flash lpc21isp bossa-cli lrzsz")
    file = folder / "image.bin"
    file.write_bytes(data)
    with plugged(device, faults) as plug:
        real = {"IMAGE": str(file), "PORT": plug.name}
        command = [program, *(real.get(word, word) for word in client.command[1:])]
        line = os.open(plug.name, os.O_RDWR | os.O_NOCTTY) if client.on_line else subprocess.DEVNULL
        try:
            output = line if client.on_line else subprocess.DEVNULL
            done = subprocess.run(
                command, stdin=line, stdout=output, stderr=subprocess.DEVNULL, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return False
        finally:
            if client.on_line:
                os.close(line)
        return done.returncode == 0


@pytest.mark.sweep
@pytest.mark.parametrize("faults", FAULTS, ids=str)
@pytest.mark.parametrize("name", CLIENTS)
def test_no_false_success(name: str, faults: Faults, tmp_path: Path) -> None:
    client = CLIENTS[name]
    vectors = struct.unpack("<7I", image(28))
    # lpc21isp changes the eighth word so that the first eight sum to zero.
    data = struct.pack("<8I", *vectors, -sum(vectors) & 0xFFFFFFFF) + image(SIZE - 32, 1)
    device = client.device()
    if succeeds(client, device, data, faults, tmp_path):
        held = device.received if isinstance(device, XmodemDevice) else device.flash.read(client.origin, SIZE)
        assert bytes(held[client.compares : SIZE]) == data[client.compares :]
        assert faults.cut is None
