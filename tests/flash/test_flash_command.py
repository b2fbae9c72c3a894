# SPDX-License-Identifier: Apache-2.0
"""`flash` and `erase` as a person starts them, at emulated devices: what is said, and the exit code."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.cli.checkout import Checkout
from tests.flash.bench import flashing_of
from tests.flash.line import Device, Faults, plugged
from tests.flash.stm32_device import Stm32Device
from tests.flash.strangers import Babbling, Silent
from toolchain.flash.port import open_port

BOARD, MODEL = "bluepill", "mnist_nano_int8"
FLASHING = flashing_of(BOARD)
ARGUMENTS = (f"board={BOARD}", f"model={MODEL}")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    found = Checkout(tmp_path_factory.mktemp("command") / "project")
    built = found.run(*ARGUMENTS)
    assert built.code == 0, built.error
    return found


@pytest.fixture
def firmware(checkout: Checkout) -> bytes:
    return (checkout.folder(BOARD, MODEL) / "firmware.bin").read_bytes()


def test_two_devices_at_once(checkout: Checkout, firmware: bytes) -> None:
    devices = Stm32Device(FLASHING), Stm32Device(FLASHING, extended=True)
    with plugged(devices[0]) as one, plugged(devices[1]) as other:
        done = checkout.run(*ARGUMENTS, f"port={one.name},{other.name}", "flash")
    assert done.code == 0, done.error
    for device, plug in zip(devices, (one, other), strict=True):
        assert device.flash.read(FLASHING.origin, len(firmware)) == firmware
        (line,) = (line for line in done.out.splitlines() if line.startswith(plug.name))
        assert "good" in line and "read back" in line and "emulated answers" in line


def test_one_of_two_fails(checkout: Checkout, firmware: bytes) -> None:
    good, locked = Stm32Device(FLASHING), Stm32Device(FLASHING, locked=True)
    with plugged(good) as one, plugged(locked) as other:
        done = checkout.run(*ARGUMENTS, f"port={one.name},{other.name}", "flash")
    done.refused("1 of 2 devices failed", "protected against reading", "unprotect=yes")
    assert good.flash.read(FLASHING.origin, len(firmware)) == firmware and good.started
    assert locked.locked and not locked.flash.erased


def test_going_on_after_a_lost_link(checkout: Checkout, firmware: bytes) -> None:
    device = Stm32Device(FLASHING)
    with plugged(device, Faults(cut=6000)) as plug:
        checkout.run(*ARGUMENTS, f"port={plug.name}", "flash").refused("not whole", "resume=yes")
    device.enter()
    with plugged(device) as plug:
        done = checkout.run(*ARGUMENTS, f"port={plug.name}", "resume=yes", "flash")
    assert done.code == 0, done.error
    assert "sectors kept" in done.out
    assert device.flash.read(FLASHING.origin, len(firmware)) == firmware
    assert len(device.flash.erased) < -(-len(firmware) // 1024)


def test_erase(checkout: Checkout) -> None:
    device = Stm32Device(FLASHING)
    with plugged(device) as plug:
        done = checkout.run(f"board={BOARD}", f"port={plug.name}", "erase")
    assert done.code == 0, done.error
    assert not device.flash.data.strip(b"\xff")


@pytest.mark.parametrize(
    ("device", "told"),
    (
        (Silent(), "no answer from the boot loader"),
        (Babbling(), "what answers is not this boot loader"),
        (Stm32Device(FLASHING, chip_id=0x413), "this is another chip than the board's"),
        (Stm32Device(FLASHING, kilobytes=4), "the image is larger than this chip's flash"),
    ),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_refused_leaves_the_port_free(checkout: Checkout, device: Device, told: str) -> None:
    begun = time.monotonic()
    with plugged(device) as plug:
        checkout.run(*ARGUMENTS, f"port={plug.name}", "flash").refused(told, plug.name)
        with open_port(plug.name):
            pass
    assert time.monotonic() - begun < 60


def test_a_busy_port_and_an_absent_one(checkout: Checkout, tmp_path: Path) -> None:
    with plugged(Silent()) as plug, open_port(plug.name):
        checkout.run(*ARGUMENTS, f"port={plug.name}", "flash").refused("the port is busy")
    checkout.run(*ARGUMENTS, f"port={tmp_path / 'ttyUSB0'}", "flash").refused("the port is not there", "list_ports")
