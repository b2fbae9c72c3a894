# SPDX-License-Identifier: Apache-2.0
"""esptool, as `flash` runs it, and the emulated ESP32-C3: each holds the other to Espressif's protocol."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flash.bench import PEERS, image
from tests.flash.esp_device import EspDevice
from tests.flash.line import Faults, plugged
from toolchain.flash.errors import FlashError
from toolchain.flash.esp32 import arguments, run_esptool

SIZES = (1, 4095, 4096, 4097, 20001)


def flash_with(device: EspDevice, data: bytes, folder: Path, *options: str, faults: Faults | None = None) -> None:
    """As the command does, with esptool's own `options` before it."""
    program = PEERS / "bin" / "esptool"
    if not program.is_file():
        pytest.skip("needs esptool: python -m venv build/peers; build/peers/bin/pip install esptool")
    file = folder / "firmware.bin"
    file.write_bytes(data)
    with plugged(device, faults) as plug:
        run_esptool([str(program), *options, *arguments("esp32c3", plug.name, 460800, file)], plug.name)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("options", ((), ("--no-stub",)), ids=("loader", "rom"))
def test_every_byte_arrives(size: int, options: tuple[str, ...], tmp_path: Path) -> None:
    device, data = EspDevice(), image(size)
    before = bytes(device.flash)
    flash_with(device, data, tmp_path, *options)
    end = -(-size // 4096) * 4096
    assert device.flash[:size] == data
    assert device.flash[end:] == before[end:]
    assert device.loaded == (not options)


@pytest.mark.parametrize("options", ((), ("--no-stub",)), ids=("loader", "rom"))
def test_a_wrong_bit_and_ignored_writes_are_found(options: tuple[str, ...], tmp_path: Path) -> None:
    for device in (EspDevice(stuck=1500), EspDevice(ignores=True)):
        with pytest.raises(FlashError, match=r"did not flash the chip(.|\n)*exit code"):
            flash_with(device, image(5000), tmp_path, *options)


def test_another_chip_is_left_alone(tmp_path: Path) -> None:
    device = EspDevice(chip_id=13)
    with pytest.raises(FlashError, match=r"ESP32-C6"):
        flash_with(device, image(100), tmp_path)
    assert not device.erased


@pytest.mark.sweep
@pytest.mark.parametrize(
    "faults",
    (
        Faults(lost=0.001),
        Faults(flipped=0.001),
        Faults(lost=0.0002, seed=2),
        Faults(flipped=0.0002, seed=2),
        Faults(stall_s=0.2),
        *(Faults(cut=cut) for cut in range(500, 9000, 1700)),
    ),
    ids=str,
)
def test_bad_lines(faults: Faults, tmp_path: Path) -> None:
    device, data = EspDevice(), image(5000)
    try:
        flash_with(device, data, tmp_path, "--no-stub", faults=faults)
    except FlashError as error:
        assert "exit code" in str(error)
    else:
        assert device.flash[:5000] == data and not faults.cut
