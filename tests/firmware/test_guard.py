# SPDX-License-Identifier: Apache-2.0
"""A stack that outgrows its size is stopped where the core can stop it, and the report names the dispatch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from boards.board import Board
from boards.loader import load_board
from compiler.compile import compile_model
from compiler.model import Model
from qemu.symbols import Symbols
from tests.firmware.emulated import booted
from tests.firmware.fake import fake_model
from tests.firmware.test_faults import listen
from tests.support import ROOT
from toolchain import link
from toolchain.elf.disassembly import Code
from toolchain.elf.faults import decode_fault
from toolchain.elf.file import Elf
from toolchain.firmware import build_firmware
from toolchain.guard import Protection, guard_of
from toolchain.options import FirmwareOptions
from toolchain.report.contents import read_report
from toolchain.stack.bound import StackBound, stack_bound
from toolchain.target import settings_of, target_of

TOO_DEEP = """
extern void touch(volatile uint8_t *p, uint32_t n);
HIDDEN void touch(volatile uint8_t *p, uint32_t n) { for (uint32_t i = n; i-- > 0;) p[i] = (uint8_t)i; }
HIDDEN void deep(void) { volatile uint8_t room[1000]; touch(room, sizeof room); }
"""
OFF_BY = 600

BOARDS = {
    "qemu_m3": Protection.MPU,
    "qemu_m4f": Protection.MPU,
    "qemu_m7": Protection.MPU,
    "netduinoplus2": Protection.MPU,
    "qemu_m33": Protection.LIMIT,
    "qemu_m55": Protection.LIMIT,
    "qemu_rv32imac": Protection.PMP,
    "hifive1b": Protection.PMP,
    "opentitan": Protection.PMP,
}


def smaller_bound(elf: Elf, code: Code, board: Board, float_handlers: bool) -> StackBound:
    """A wrong proof: the stack that is reserved does not do."""
    right = stack_bound(elf, code, board, float_handlers)
    return replace(right, program=right.program - OFF_BY)


@pytest.mark.parametrize("name", sorted(BOARDS))
def test_hardware_stops_an_overflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    board = load_board(name)
    assert guard_of(board).protection is BOARDS[name]
    monkeypatch.setattr(link, "stack_bound", smaller_bound)
    model = fake_model(board, tmp_path, before=TOO_DEEP, body="deep();", flags=("-O1", "-fno-inline"))
    result = build_firmware(board, model, tmp_path, FirmwareOptions())
    with booted(board, result.runs) as (console, emulation):
        console.command("name")
        emulation.write(b"test%")
        text = listen(emulation, 1.0)
    assert "e-[Stack overflow cause " in text and " dispatch 1 SOFTMAX]" in text
    told = decode_fault(text, result.runs, read_report(result.report))
    assert told.startswith("stack overflow: ") and "dispatch 1 of fake: SOFTMAX" in told


@pytest.mark.parametrize("name", ("microbit", "pico", "longan_nano", "ch32v003", "ch32v307"))
def test_a_canary_is_looked_at_behind_each_kernel(tmp_path: Path, name: str) -> None:
    board, file = load_board(name), ROOT / "models" / "mnist_nano_int8.tflite"
    assert guard_of(board).protection is Protection.CANARY
    model = compile_model(Model(file.name, file.read_bytes()), target_of(board.core), settings=settings_of(board))
    result = build_firmware(board, model, tmp_path, FirmwareOptions())
    symbols = Symbols(result.runs)
    with booted(board, result.runs) as (console, emulation):
        assert console.self_test().failure is None
        emulation.stop()
        with emulation.debugger() as debugger:
            debugger.watch(symbols[f"{model.prefix}_dispatch"].address)
        emulation.resume()
        emulation.write(b"infer 1 0%")
        listen(emulation, 0.3)
        assert emulation.stopped
        with emulation.debugger() as debugger:
            debugger.unwatch(symbols[f"{model.prefix}_dispatch"].address)
            debugger.write_memory(symbols["__stack_limit"].address, bytes(4))
        emulation.resume()
        text = listen(emulation, 1.0)
    assert text.startswith("\r\ne-[Stack overflow cause ") and text.endswith(
        f" dispatch 0 {model.dispatches[0].op}]\r\n"
    )
    told = decode_fault(text, result.runs, read_report(result.report))
    assert f"dispatch 0 of {model.name}" in told


@pytest.mark.parametrize("name", ("qemu_m3", "qemu_rv32imac"))
def test_the_guard_can_be_read_but_not_written(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    before = "extern volatile uint32_t __stack_limit[8], __stack_low[1]; static volatile uint32_t sum;"
    inside = "for (int i = 0; i < 8; i++) { sum += __stack_limit[i]; } __stack_low[0] = 1;"
    model = fake_model(board, tmp_path, before=before, body=inside)
    result = build_firmware(board, model, tmp_path, FirmwareOptions())
    with booted(board, result.runs) as (console, _):
        assert console.self_test().failure is None
    for word in (0, 7):
        model = fake_model(board, tmp_path, before=before, body=f"__stack_limit[{word}] = 1;")
        result = build_firmware(board, model, tmp_path, FirmwareOptions())
        with booted(board, result.runs) as (console, emulation):
            console.command("name")
            emulation.write(b"test%")
            assert "e-[Stack overflow cause " in listen(emulation, 1.0)
