# SPDX-License-Identifier: Apache-2.0
"""Faults at run time: one line with cause, place and dispatch, then silence."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from boards.loader import load_board
from qemu.console import DeviceError
from qemu.machine import Emulation
from qemu.symbols import Symbols
from tests.firmware.emulated import booted
from tests.firmware.fake import fake_model
from toolchain.decode import decode_fault
from toolchain.firmware import build_firmware
from toolchain.options import FirmwareOptions
from toolchain.report import read_report

CASES = (
    ("qemu_m4f", "*(volatile int *)0xF0000000u = 1;", {3, 5}),
    ("qemu_m55", '__asm__ volatile("udf #0");', {3, 6}),
    ("microbit", '__asm__ volatile("udf #0");', {3}),
    ("qemu_rv32imac", "*(volatile int *)0x00000008u = 1;", {7}),
    ("ch32v003", '__asm__ volatile("unimp");', {2}),
)

WORDS = {
    (3, "qemu_m4"): "HardFault",
    (5, "qemu_m4"): "BusFault; bus error on data",
    (3, "qemu_m5"): "HardFault; undefined instruction",
    (6, "qemu_m5"): "UsageFault; undefined instruction",
    (3, "microbi"): "HardFault",
    (7, "qemu_rv"): "store access fault",
    (2, "ch32v00"): "illegal instruction",
}


@pytest.mark.parametrize(("name", "body", "causes"), CASES)
def test_reports_and_stops(tmp_path: Path, name: str, body: str, causes: set[int]) -> None:
    board = load_board(name)
    result = build_firmware(board, fake_model(board, tmp_path, body=body), tmp_path, FirmwareOptions())
    with booted(board, result.runs) as (_, emulation):
        emulation.write(b"test%")
        text = listen(emulation, 1.0)
    match = re.fullmatch(
        r"\r\ne-\[Fault cause (\w{8})(?: status \w{8})? pc (\w{8}) (?:lr|ra) \w{8} dispatch 1 SOFTMAX]\r\n", text
    )
    assert match, text
    invoke = Symbols(result.runs)["fake_invoke"]
    assert int(match[1], 16) in causes
    told = decode_fault(text, result.runs, read_report(result.report))
    assert f"  pc {match[2]}: fake_invoke + {int(match[2], 16) - invoke.address}" in told
    assert "  dispatch 1 of fake: SOFTMAX scores, rows" in told and WORDS[int(match[1], 16), name[:7]] in told
    assert invoke.address <= int(match[2], 16) < invoke.address + invoke.size


@pytest.mark.parametrize("name", ("microbit", "qemu_rv32ec", "qemu_m55"))
def test_a_broken_stack_guard_stops_the_console(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    body = "extern volatile uint32_t __stack_limit[]; __stack_limit[0] = 1;"
    result = build_firmware(board, fake_model(board, tmp_path, body=body), tmp_path, FirmwareOptions())
    with booted(board, result.runs) as (console, emulation):
        console.command("name")
        emulation.write(b"infer 1 0%")
        assert listen(emulation, 1.0).endswith("e-[Stack overflow]\r\n")
        emulation.write(b"name%")
        assert listen(emulation, 0.5) == ""


def test_the_float_unit_is_on_before_main(tmp_path: Path) -> None:
    """Start-up turns the float unit on before anything else: a float instruction works at once."""
    board = load_board("qemu_m4f")
    body = '__asm__ volatile("vmov.f32 s0, #1.0" ::: "s0");'
    result = build_firmware(board, fake_model(board, tmp_path, body=body), tmp_path, FirmwareOptions())
    with booted(board, result.runs) as (console, _):
        assert console.self_test().failure is None
        with pytest.raises(DeviceError):
            console.command("unknown")


def listen(emulation: Emulation, seconds: float) -> str:
    """All that is said until nothing more comes for `seconds`."""
    said = b""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        part = emulation.read(0.1)
        if part:
            said += part
            end = time.monotonic() + seconds
    return said.decode("ascii")
