# SPDX-License-Identifier: Apache-2.0
"""Ports and what may hang on them: absent, busy, silent, echoing, talking nonsense; and the modem lines."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from compiler.errors import UserError
from tests.flash.bench import flash_device, flashing_of, image, settings
from tests.flash.bridge import over_rfc2217, over_socket
from tests.flash.line import Device, plugged
from tests.flash.rigs import RIGS
from tests.flash.stm32_device import Stm32Device
from tests.flash.strangers import Babbling, Echoing, Silent
from tests.flash.wch_device import WchDevice
from toolchain.flash.errors import Echo, FlashError, Garbage, LinkLost, NoAnswer, PortError, TooLong
from toolchain.flash.esp32 import arguments, run_esptool
from toolchain.flash.fleet import conclude, on_each
from toolchain.flash.plan import Image, plan_of
from toolchain.flash.port import Port, open_port
from toolchain.flash.session import flash
from toolchain.flash.uf2 import copy_uf2
from toolchain.flash.wiring import read_wiring

BOARDS = {name: flashing_of(name) for name in ("bluepill", "ch32v307", "nrf52840dk_mcuboot", "feather_nrf52832")}

LISTENERS = ("xmodem", "ymodem")
"""These say nothing before they are spoken to, so there is no echo."""


@pytest.mark.parametrize("protocol", RIGS)
@pytest.mark.parametrize(("device", "error"), ((Silent(), NoAnswer), (Echoing(), Echo), (Babbling(), Garbage)))
def test_what_is_no_boot_loader(protocol: str, device: Device, error: type[FlashError]) -> None:
    begun = time.monotonic()
    if error is Echo and protocol in LISTENERS:
        error = NoAnswer
    with pytest.raises(error):
        flash_device(device, RIGS[protocol].flashing, RIGS[protocol].image(100))
    assert time.monotonic() - begun < 20


def test_absent_and_busy_ports(tmp_path: Path) -> None:
    with pytest.raises(PortError, match="not there"), open_port(str(tmp_path / "ttyUSB9")):
        pass
    with pytest.raises(PortError, match="cannot be opened"), open_port("gopher://nowhere:1"):
        pass
    with plugged(Silent()) as plug, open_port(plug.name), pytest.raises(PortError, match="busy"):
        open_port(plug.name).__enter__()


class _Late:
    """A device whose second byte comes between two looks at the line."""

    def __init__(self) -> None:
        self.looks = iter((1, 0))

    @property
    def in_waiting(self) -> int:
        return next(self.looks, 1)

    def read(self, count: int) -> bytes:
        assert count > 0, "asked for nothing: would be asked for ever"
        return b"x" * count


def test_a_byte_that_comes_between_two_looks() -> None:
    port = Port("late", _Late())
    assert port.read(1.0) == b"x"
    assert port.read(1.0) == b"xx"


def test_a_port_that_goes_away() -> None:
    master, slave = os.openpty()
    with open_port(os.ttyname(slave)) as port:
        os.close(slave)
        os.close(master)
        with pytest.raises(LinkLost, match="the link was lost"):
            port.write(b"x")
            port.read(1.0)


def test_a_session_ends_at_its_deadline() -> None:
    with plugged(Babbling()) as plug, open_port(plug.name) as port:
        port.deadline = time.monotonic() + 0.3
        with pytest.raises(TooLong):
            while True:
                port.read(0.1)


def test_a_device_behind_a_socket() -> None:
    flashing, data = BOARDS["bluepill"], image(700)
    device = Stm32Device(flashing)
    with plugged(device) as plug, over_socket(plug.name) as url, open_port(url) as port:
        flash(port, plan_of(Image(flashing.origin, data), flashing), settings(flashing), lambda *_: None)
    assert device.flash.read(flashing.origin, 700) == data


@pytest.mark.filterwarnings("ignore:set(Daemon|Name):DeprecationWarning")
def test_a_device_behind_a_server_of_ports() -> None:
    flashing, data = BOARDS["bluepill"], image(700)
    device = Stm32Device(flashing)
    wired = replace(settings(flashing), wiring=read_wiring("reset:rts,boot:!dtr"))
    with plugged(device) as plug, over_rfc2217(plug.name) as (url, served), open_port(url) as port:
        flash(port, plan_of(Image(flashing.origin, data), flashing), wired, lambda *_: None)
    assert device.flash.read(flashing.origin, 700) == data
    # The far port is set to even parity, and its lines reset the chip into the boot loader and out of it.
    assert ("parity", "E") in served.asked
    moves = [move for move in served.asked if move[0] != "parity"]
    assert moves[-6:] == [("dtr", False), ("rts", True), ("rts", False), ("dtr", True), ("rts", True), ("rts", False)]


class _Lines:
    """A port of pyserial that records its modem lines, or has none."""

    def __init__(self, absent: bool = False) -> None:
        self.seen: list[tuple[str, bool]] = []
        self._absent = absent

    def __setattr__(self, name: str, value: object) -> None:
        if name in ("dtr", "rts"):
            if self._absent:
                raise OSError(25, "Inappropriate ioctl for device")
            assert isinstance(value, bool)
            self.seen.append((name, value))
        else:
            super().__setattr__(name, value)


def test_reset_and_boot_pin() -> None:
    lines = _Lines()
    port, wiring = Port("x", lines), read_wiring("reset:rts,boot:!dtr")
    assert wiring.idle() == {"rts": False, "dtr": True}
    assert wiring.enter(port)
    assert lines.seen == [("dtr", False), ("rts", True), ("rts", False)]
    lines.seen.clear()
    assert wiring.leave(port)
    assert lines.seen == [("dtr", True), ("rts", True), ("rts", False)]


def test_a_port_without_modem_lines() -> None:
    port = Port("x", _Lines(absent=True))
    assert not read_wiring("reset:rts,boot:dtr").enter(port)
    assert not port.has_lines


@pytest.mark.parametrize("text", ("reset", "reset:cts", "reset:rts,reset:dtr", "reset:rts,boot:!rts", "boot=dtr"))
def test_what_is_no_wiring(text: str) -> None:
    with pytest.raises(UserError, match="not a wiring"):
        read_wiring(text)


def test_a_fleet_tells_of_each_device() -> None:
    def work(port: str) -> str:
        if port != "b":
            raise NoAnswer("no answer", where=port)
        return "good"

    results = on_each(("a", "b", "c"), work)
    assert [(r.port, r.outcome) for r in results] == [("a", None), ("b", "good"), ("c", None)]
    with pytest.raises(UserError, match=r"2 of 3 devices failed:\n    a: no answer(.|\n)*\n    c: no answer"):
        conclude(results)
    with pytest.raises(NoAnswer):
        conclude(on_each(("a",), work))
    conclude(on_each(("b",), work))


def test_a_fleet_of_devices_at_once() -> None:
    data = image(600)
    devices: dict[str, Stm32Device | WchDevice] = {
        "bluepill": Stm32Device(BOARDS["bluepill"]),
        "ch32v307": WchDevice(BOARDS["ch32v307"]),
    }
    conclude(on_each(list(devices), lambda board: flash_device(devices[board], BOARDS[board], data)))
    for board, device in devices.items():
        assert device.flash.read(BOARDS[board].origin, 600) == data


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Path]:
    """A mounted RP2040, as a folder."""
    (tmp_path / "INFO_UF2.TXT").write_text("UF2 Bootloader v3.0\nModel: Raspberry Pi RP2\nBoard-ID: RPI-RP2\n")
    yield tmp_path


def test_a_drive_takes_the_file_and_goes_away(drive: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("image") / "firmware.uf2"
    file.write_bytes(image(512))
    vanish = threading.Timer(0.3, (drive / "INFO_UF2.TXT").unlink)
    vanish.start()
    copy_uf2(file, drive, "RPI-RP2", 5.0)
    vanish.join()
    assert (drive / "firmware.uf2").read_bytes() == file.read_bytes()


def test_drives_that_are_refused(drive: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("image") / "firmware.uf2"
    file.write_bytes(image(512))
    with pytest.raises(FlashError, match="another chip"):
        copy_uf2(file, drive, "RP2350", 0.1)
    with pytest.raises(FlashError, match="no UF2 drive"):
        copy_uf2(file, file.parent, "RPI-RP2", 0.1)
    with pytest.raises(FlashError, match="still there"):
        copy_uf2(file, drive, "RPI-RP2", 0.1)


def test_esptool_is_believed_only_with_its_proof(tmp_path: Path) -> None:
    program = tmp_path / "esptool"
    for script, good in (("echo Hash of data verified.", True), ("echo done", False), ("echo no; exit 2", False)):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        command = [str(program), *arguments("esp32c3", "/dev/x", 460800, tmp_path / "firmware.bin")]
        if good:
            run_esptool(command, "/dev/x")
        else:
            with pytest.raises(FlashError, match="exit code"):
                run_esptool(command, "/dev/x")
