# SPDX-License-Identifier: Apache-2.0
"""Faults at run time: one line with cause, place and dispatch, then silence."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from boards.loader import load_board
from qemu.console import DeviceError
from qemu.machine import Emulation
from qemu.symbols import Symbols
from tests.firmware.emulated import booted
from tests.firmware.fake import fake_model
from toolchain.elf.faults import decode_fault
from toolchain.firmware import build_firmware
from toolchain.options import FirmwareOptions
from toolchain.report.contents import read_report

UNDEFINED = '__asm__ volatile("udf #0");'
MISALIGNED = '__asm__ volatile("CODE" :: "r"(fake_arena + 1) : "r2", "r3", "memory");'
DIVISION = """
    *(volatile uint32_t *)0xE000ED14u |= 16; /* CCR.DIV_0_TRP */
    __asm__ volatile("mov r2, #0\\n udiv r2, r2, r2" ::: "r2");
"""

CASES = (
    ("microbit", UNDEFINED, 3, "HardFault"),
    ("microbit", MISALIGNED.replace("CODE", "ldr r3, [%0]"), 3, "HardFault"),
    ("microbit", "(void)*(volatile int *)0x60000000u;", 3, "HardFault"),
    ("stm32vldiscovery", UNDEFINED, 3, "HardFault; undefined instruction"),
    ("qemu_m3", DIVISION, 3, "HardFault; division by zero"),
    ("qemu_m4f", UNDEFINED, 3, "HardFault; undefined instruction"),
    ("qemu_m4f", "*(volatile int *)0xF0000000u = 1;", 3, "HardFault; bus error on data"),
    ("qemu_m4f", MISALIGNED.replace("CODE", "ldrd r2, r3, [%0]"), 3, "HardFault; unaligned access"),
    ("netduinoplus2", "*(volatile int *)0xF0000000u = 1;", 3, "HardFault; bus error on data"),
    ("qemu_m33", UNDEFINED, 3, "HardFault; undefined instruction"),
    ("qemu_m55", UNDEFINED, 3, "HardFault; undefined instruction"),
    ("qemu_rv32imac", '__asm__ volatile("unimp");', 2, "illegal instruction"),
    ("qemu_rv32imac", '__asm__ volatile("ebreak");', 3, "breakpoint"),
    ("qemu_rv32imac", "(void)*(volatile int *)0x00000008u;", 5, "load access fault"),
    ("qemu_rv32imac", "*(volatile int *)0x00000008u = 1;", 7, "store access fault"),
    (
        "qemu_rv32imac",
        '__asm__ volatile("lr.w a5, (%0)" :: "r"(fake_arena + 1) : "a5");',
        4,
        "load address misaligned",
    ),
    ("hifive1b", '__asm__ volatile("unimp");', 2, "illegal instruction"),
    ("ch32v003", '__asm__ volatile("unimp");', 2, "illegal instruction"),
    ("longan_nano", "(void)*(volatile int *)0x00000008u;", 5, "load access fault"),
)


@pytest.mark.parametrize(("name", "body", "cause", "words"), CASES)
def test_reports_and_stops(tmp_path: Path, name: str, body: str, cause: int, words: str) -> None:
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
    assert int(match[1], 16) == cause
    told = decode_fault(text, result.runs, read_report(result.report))
    assert told.startswith(f"fault: {words}\n  pc {match[2]}: fake_invoke + {int(match[2], 16) - invoke.address}\n")
    assert "  dispatch 1 of fake: SOFTMAX scores, rows" in told
    assert invoke.address <= int(match[2], 16) < invoke.address + invoke.size


def test_the_dispatch_that_joins_operators_is_named(tmp_path: Path) -> None:
    board = load_board("qemu_m3")
    model = fake_model(board, tmp_path, body=UNDEFINED)
    joined = replace(model.dispatches[1], op="CONV_2D + CONV_2D + MAX_POOL_2D")
    model = replace(model, dispatches=(model.dispatches[0], joined))
    result = build_firmware(board, model, tmp_path, FirmwareOptions())
    with booted(board, result.runs) as (_, emulation):
        emulation.write(b"test%")
        text = listen(emulation, 1.0)
    assert f" dispatch 1 {joined.op}]" in text
    told = decode_fault(text, result.runs, read_report(result.report))
    assert told.endswith(f"  dispatch 1 of fake: {joined.op} scores, rows")


@pytest.mark.parametrize(("name", "body", "pc"), (("qemu_m3", UNDEFINED, 15), ("qemu_rv32imac", "*(int *)8 = 1;", 32)))
def test_a_debugger_reads_what_led_to_the_fault(tmp_path: Path, name: str, body: str, pc: int) -> None:
    """The GDB stub is what a debug probe's server is on a chip."""
    board = load_board(name)
    model = fake_model(board, tmp_path, before="volatile uint32_t mark;", body=f"mark = 0x12345678; {body}")
    result = build_firmware(board, model, tmp_path, FirmwareOptions())
    symbols = Symbols(result.runs)
    with booted(board, result.runs) as (_, emulation):
        emulation.write(b"test%")
        assert "e-[Fault" in listen(emulation, 1.0)
        emulation.stop()
        with emulation.debugger() as debugger:
            at = debugger.register(pc) - symbols["fault_report"].address
            found = [debugger.read_memory(symbols[s].address, 4) for s in ("mark", "fake_dispatch")]
    assert 0 <= at < symbols["fault_report"].size
    assert found == [bytes.fromhex("78563412"), bytes([2, 0, 0, 0])]


@pytest.mark.parametrize("name", ("microbit", "qemu_rv32ec", "qemu_m55"))
def test_a_broken_stack_guard_stops_the_console(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    body = "extern volatile uint32_t __stack_limit[]; __stack_limit[0] = 1;"
    result = build_firmware(board, fake_model(board, tmp_path, body=body), tmp_path, FirmwareOptions())
    with booted(board, result.runs) as (console, emulation):
        console.command("name")
        emulation.write(b"infer 1 0%")
        assert re.fullmatch(r".*\r\ne-\[Stack overflow cause [^d]*]\r\n", listen(emulation, 1.0), re.DOTALL)
        emulation.write(b"name%")
        assert listen(emulation, 0.5) == ""


def test_an_overflow_is_told_at_once(tmp_path: Path) -> None:
    board = load_board("microbit")
    body = "extern volatile uint32_t __stack_limit[]; __stack_limit[0] = 1;"
    result = build_firmware(board, fake_model(board, tmp_path, body=body), tmp_path, FirmwareOptions())
    with booted(board, result.runs) as (console, _), pytest.raises(DeviceError, match=r"e-\[Stack overflow cause"):
        console.self_test()


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
