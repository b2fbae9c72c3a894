# SPDX-License-Identifier: Apache-2.0
"""`profile` at a port: each dispatch's cycles, by whatever counter the core has."""

from __future__ import annotations

import re

import pytest

from tests.cli.checkout import Checkout
from tests.flash.emulator import emulator_pty
from toolchain.report.contents import read_report

MODEL = "mnist_nano_int8"
COUNTERS = {"qemu_m3": "SysTick", "microbit": "TIMER0 in steps of 16", "qemu_rv32imac": "mcycle"}
"""QEMU's Cortex-M have no DWT: the firmware then counts by SysTick."""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return Checkout(tmp_path_factory.mktemp("device") / "project")


@pytest.mark.parametrize("board", COUNTERS)
def test_cycles_of_each_dispatch(checkout: Checkout, board: str) -> None:
    arguments = (f"board={board}", f"model={MODEL}", "console=profile")
    assert checkout.run(*arguments).code == 0
    folder = checkout.folder(board, MODEL)
    with emulator_pty(board, folder / "firmware.elf") as port:
        done = checkout.run(*arguments, f"port={port}", "profile")
    assert done.code == 0, done.error
    report = read_report(folder / "report.json")
    counts = [dispatch["cycles"] for dispatch in report["dispatches"]]
    assert min(counts) >= 0 and max(counts) > 0 and sum(counts) == report["cycles"]
    assert f"measured on the device by its {COUNTERS[board]}, mean of 2 inferences" in done.out
    shares = [float(share) for share in re.findall(r"(\d+\.\d) %", done.out.split("a MAC")[1])]
    assert len(shares) >= len(counts) and abs(sum(shares[: len(counts)]) - 100) < 1
    assert report["instructions"] is None


def test_firmware_that_counts_computes_the_same(checkout: Checkout) -> None:
    arguments = ("board=qemu_m3", f"model={MODEL}", "console=profile")
    assert checkout.run(*arguments).code == 0
    with emulator_pty("qemu_m3", checkout.folder("qemu_m3", MODEL) / "firmware.elf") as port:
        done = checkout.run(*arguments, f"port={port}", "run")
    assert done.code == 0 and "PASS" in done.out


def test_firmware_that_does_not_count_is_named(checkout: Checkout) -> None:
    board = "qemu_m3"
    plain, counting = ((f"board={board}", f"model={MODEL}", f"console={console}") for console in ("uart", "profile"))
    assert checkout.run(*plain).code == 0
    elf = checkout.root / "plain.elf"
    elf.write_bytes((checkout.folder(board, MODEL) / "firmware.elf").read_bytes())
    with emulator_pty(board, elf) as port:
        checkout.run(*plain, f"port={port}", "profile").refused("this firmware does not count", "console=profile")
        checkout.run(*counting, f"port={port}", "profile").refused("the firmware on the device does not count")
    checkout.run(*counting, "profile").refused("counts cycles, which are a device's", "port=")


def test_counting_leaves_the_models_code_as_it_is(checkout: Checkout) -> None:
    archives: list[bytes] = []
    for console in ("uart", "profile"):
        assert checkout.run("board=qemu_m3", f"model={MODEL}", f"console={console}").code == 0
        archives.append((checkout.folder("qemu_m3", MODEL) / f"lib{MODEL}.a").read_bytes())
    assert archives[0] == archives[1]


@pytest.mark.parametrize(
    ("board", "counter"),
    (
        ("bluepill", "DWT CYCCNT"),
        ("nrf52dk", "DWT CYCCNT"),
        ("esp32c3", "mpccr"),
        ("longan_nano", "mcycle"),
        ("ch32v103", "STK in steps of 8"),
        ("ch32v307", "STK in steps of 8"),
    ),
)
def test_the_counter_of_each_family(checkout: Checkout, board: str, counter: str) -> None:
    built = checkout.run(f"board={board}", f"model={MODEL}", "console=profile")
    assert built.code == 0, built.error
    source = checkout.folder(board, MODEL) / "firmware.c"
    assert f'return "{counter}";' in source.read_text()
