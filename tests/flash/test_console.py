# SPDX-License-Identifier: Apache-2.0
"""The firmware's console at the end of a port: an emulator's pty stands for the device; and the monitor."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.cli.checkout import Checkout
from tests.flash.bridge import over_rfc2217, over_socket
from tests.flash.emulator import emulator_pty
from tests.flash.line import Line, plugged
from tests.support import ROOT
from toolchain.commands.monitor import decoder_of
from toolchain.elf.file import read_elf
from toolchain.flash.port import open_port
from toolchain.monitor import QUIT, Screen, monitor_port

BOARD, MODEL = "qemu_m3", "mnist_nano_int8"
SAMPLES = np.load(ROOT / "models" / f"{MODEL}.samples.npz")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    found = Checkout(tmp_path_factory.mktemp("device") / "project")
    built = found.run(f"board={BOARD}", f"model={MODEL}")
    assert built.code == 0, built.error
    return found


@pytest.fixture
def arguments(tmp_path: Path) -> tuple[str, ...]:
    """Board, model and two rows."""
    np.savez(tmp_path / "in.npz", in0=SAMPLES["in0"][:2])
    return (f"board={BOARD}", f"model={MODEL}", f"input={tmp_path / 'in.npz'}", f"output={tmp_path / 'out.npz'}")


@contextmanager
def at_url(scheme: str, pty: str) -> Iterator[str]:
    """The pseudo terminal itself, or behind a server."""
    if scheme == "pty":
        yield pty
    elif scheme == "socket":
        with over_socket(pty) as url:
            yield url
    else:
        with over_rfc2217(pty) as (url, _):
            yield url


@pytest.mark.parametrize("scheme", ("pty", "socket", "rfc2217"))
def test_infer_on_a_port(checkout: Checkout, arguments: tuple[str, ...], tmp_path: Path, scheme: str) -> None:
    with emulator_pty(BOARD, checkout.folder(BOARD, MODEL) / "firmware.elf") as pty, at_url(scheme, pty) as port:
        done = checkout.run(*arguments, f"port={port}", "infer")
    assert done.code == 0, done.error
    assert f"{BOARD} at {port}" in done.out
    found = np.load(tmp_path / "out.npz")["out0"]
    expected = SAMPLES["tflm_out0" if "tflm_out0" in SAMPLES else "out0"][:2]
    np.testing.assert_array_equal(found, expected.reshape(found.shape))


@pytest.mark.sweep
@pytest.mark.parametrize("scheme", ("pty", "socket", "rfc2217"))
def test_run_and_verify_on_a_port(checkout: Checkout, arguments: tuple[str, ...], scheme: str) -> None:
    with emulator_pty(BOARD, checkout.folder(BOARD, MODEL) / "firmware.elf") as pty, at_url(scheme, pty) as port:
        done = checkout.run(*arguments, f"port={port}", "run", "verify")
    assert done.code == 0, done.error
    assert done.out.count("PASS") == 2


class Another:
    """The console of another model's firmware."""

    def serve(self, line: Line) -> None:
        said = b""
        while True:
            said += line.take(1)
            if said.endswith(b"%"):
                line.give(b"m-profile-[tinykiln]\r\nm-model-[other]\r\nm-ready \r\n")
                said = b""


def test_another_models_firmware(checkout: Checkout, arguments: tuple[str, ...]) -> None:
    with plugged(Another()) as plug:
        checkout.run(*arguments, f"port={plug.name}", "infer").refused("the firmware of another model", "got: other")


def test_infer_without_anyone(checkout: Checkout, arguments: tuple[str, ...]) -> None:
    master, slave = os.openpty()
    try:
        done = checkout.run(*arguments, f"port={os.ttyname(slave)}", "infer")
    finally:
        os.close(slave)
        os.close(master)
    done.refused("the firmware does not answer on its console", "got: nothing", "flash the board first")


class Faulting:
    """Says hello to every key, then faults at an address."""

    def __init__(self, address: int) -> None:
        self._fault = b"\r\ne-[Fault cause 00000003 pc %08X lr %08X dispatch 1]\r\n" % (address, address | 1)

    def serve(self, line: Line) -> None:
        assert line.take(2) == b"hi"
        line.give(b"hello" + self._fault[:20])
        line.give(self._fault[20:])
        line.take(1)


def test_the_monitor_names_the_place_of_a_fault(checkout: Checkout) -> None:
    elf = checkout.folder(BOARD, MODEL) / "firmware.elf"
    start = read_elf(elf.read_bytes()).symbol(f"{MODEL}_invoke").address
    out, log = io.BytesIO(), io.BytesIO()
    typed = iter([b"hi", *[b""] * 8, QUIT])
    with plugged(Faulting(start + 4)) as plug, open_port(plug.name) as port:
        monitor_port(port, lambda: next(typed), Screen(log, decoder_of(elf), out))
    assert out.getvalue() == log.getvalue()
    assert out.getvalue().count(b"\r\nfault: HardFault") == 1
    assert f"pc {start + 4:08X}: {MODEL}_invoke".lower().encode() in out.getvalue().lower()


def test_the_monitor_ends_with_its_input() -> None:
    class Quiet:
        def serve(self, line: Line) -> None:
            line.take(100)

    with plugged(Quiet()) as plug, open_port(plug.name) as port:
        monitor_port(port, lambda: None, Screen(None, None, io.BytesIO()))


def test_a_compact_console_on_a_port(checkout: Checkout, arguments: tuple[str, ...], tmp_path: Path) -> None:
    """Of another board, whose folder no other test uses."""
    words = ("board=qemu_m4", *arguments[1:], "console=compact")
    built = checkout.run(*(word for word in words if not word.startswith(("input=", "output="))))
    assert built.code == 0, built.error
    with emulator_pty("qemu_m4", checkout.folder("qemu_m4", MODEL) / "firmware.elf") as port:
        done = checkout.run(*words, f"port={port}", "infer")
    assert done.code == 0, done.error
    found = np.load(tmp_path / "out.npz")["out0"]
    expected = SAMPLES["tflm_out0" if "tflm_out0" in SAMPLES else "out0"][:2]
    np.testing.assert_array_equal(found, expected.reshape(found.shape))
