# SPDX-License-Identifier: Apache-2.0
"""An arena that no bank of RAM can hold alone is spread over several, and computes the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from boards.board import Board, Memory
from boards.loader import load_board
from compiler.artifact import CompiledModel
from compiler.compile import compile_model
from compiler.errors import UserError
from compiler.model import Model
from compiler.settings import Settings
from qemu.inputs import InputMemory
from qemu.symbols import Symbols
from tests.firmware.emulated import booted
from tests.support import ROOT
from toolchain.firmware import build_firmware
from toolchain.options import FirmwareOptions
from toolchain.target import target_of

NETWORK = "mnist_int8"


def two_banks(name: str, first: int, second: int) -> Board:
    """An emulated board whose RAM is two banks of so many bytes, far apart; the arena prefers the second."""
    board = load_board(name)
    apart = Memory("FAST", board.ram.kind, board.ram.origin + 0x10000, second)
    memories = (board.flash, replace(board.ram, size=first), apart)
    emulator = replace(board.emulator, memories=memories)
    return replace(board, memories=memories, arena_banks=("FAST", board.ram.name), emulator=emulator)


def compiled(board: Board, *banks: int) -> CompiledModel:
    file = ROOT / "models" / f"{NETWORK}.tflite"
    settings = Settings(banks=banks)
    return compile_model(Model(file.name, file.read_bytes()), target_of(board.core), settings=settings)


@pytest.mark.parametrize("name", ("qemu_m3", "qemu_m0", "qemu_m55", "qemu_rv32imac", "qemu_rv32ec"))
def test_a_spread_arena_computes_the_same(tmp_path: Path, name: str) -> None:
    board = two_banks(name, 5120, 2048)
    model = compiled(board, 2048)
    assert len(model.arena_parts) == 2 and all(part.bytes for part in model.arena_parts)
    result = build_firmware(board, model, tmp_path, FirmwareOptions())
    symbols = Symbols(result.elf)
    for part, bank in zip(model.arena_parts, ("FAST", board.ram.name), strict=True):
        memory = next(m for m in board.memories if m.name == bank)
        assert memory.origin <= symbols[part.symbol].address <= memory.end - part.bytes
    report = json.loads(result.report.read_text())
    assert report["banks"]["arena"] == f"FAST + {board.ram.name}" and report["arena"]["walls"] == [*model.arena_walls]
    assert report["ram"]["arena"] == model.arena_bytes
    with np.load(ROOT / "models" / f"{NETWORK}.npz") as golden:
        rows, wanted = golden["in0"][:3], golden["out0"][:3]
    memory_of = InputMemory.of(result.runs, [model.place(port) for port in model.inputs])
    with booted(board, result.runs) as (console, emulation):
        assert console.self_test().failure is None
        found = list(console.run([row.tobytes() for row in rows], lambda row: memory_of.load(emulation, row)))
    assert found == [row.tobytes() for row in wanted]


def test_a_tensor_in_two_banks_is_refused(tmp_path: Path) -> None:
    board = two_banks("qemu_m3", 5120, 2048)
    model = compiled(board, 2048)
    wall = model.arena_walls[0]
    astray = replace(model.arena_tensors[0], name="astray", offset=wall - 16, bytes=32, first=99, last=99)
    with pytest.raises(UserError) as caught:
        broken = replace(model, arena_tensors=(*model.arena_tensors, astray))
        build_firmware(board, broken, tmp_path, FirmwareOptions())
    assert f"arena: astray, {wall - 16} to {wall + 16}, lies in two banks" in str(caught.value)
