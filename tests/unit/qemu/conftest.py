# SPDX-License-Identifier: Apache-2.0
"""Builds the test firmware of this folder for a board's emulator, with the cross compilers that are installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from boards.board import Board, MemoryKind
from boards.loader import load_board

HERE = Path(__file__).parent
STACK_BYTES = 900

LINKER_SCRIPT = """
MEMORY {{ FLASH (rx) : ORIGIN = {flash.origin}, LENGTH = {flash.size}
          RAM (rwx) : ORIGIN = {ram.origin}, LENGTH = {ram.size} }}
ENTRY(start)
SECTIONS {{
    .text : {{ KEEP(*(.vectors)) *(.text*) *(.rodata*) . = ALIGN(4); }} > FLASH
    .stack (NOLOAD) : {{ __stack_limit = .; . += {stack}; __stack_top = .; }} > RAM
    .bss (NOLOAD) : {{ . = ALIGN(4); __bss_start = .; *(.bss*) *(.data*) *(COMMON) . = ALIGN(4); __bss_end = .; }} > RAM
    /DISCARD/ : {{ *(.comment) *(.note*) *(.eh_frame*) *(.ARM.*) }}
}}
"""

Builder = Callable[[str], tuple[Board, Path]]


LINKED = (MemoryKind.FLASH, MemoryKind.RAM)


@pytest.fixture
def build(tmp_path: Path) -> Builder:
    """Board name to the board and a linked ELF file of the test firmware for its emulator."""

    def make(name: str) -> tuple[Board, Path]:
        board = load_board(name)
        for tool in (board.core.gcc, board.emulator.system):
            if shutil.which(tool) is None:
                pytest.skip(f"{tool} is not installed")
        memories = {kind: next(m for m in board.emulator.memories if m.kind is kind) for kind in LINKED}
        script = tmp_path / "firmware.ld"
        script.write_text(
            LINKER_SCRIPT.format(flash=memories[MemoryKind.FLASH], ram=memories[MemoryKind.RAM], stack=STACK_BYTES)
        )
        console = board.emulator.console
        start = HERE / ("start_arm.S" if board.core.gcc.startswith("arm") else "start_riscv.S")
        elf = tmp_path / f"{name}.elf"
        objects = []
        for source in (HERE / "firmware.c", start):
            objects.append(tmp_path / f"{source.stem}.o")
            flags = ["-Os", "-ffreestanding", f"-DUART_BASE={console.base}u", f"-DDRIVER_{console.driver}"]
            run([board.core.gcc, *board.core.gcc_flags, *flags, "-c", str(source), "-o", str(objects[-1])])
        link = ["-nostdlib", f"-T{script}", "-Wl,--no-warn-rwx-segments", *map(str, objects), "-lgcc", "-o", str(elf)]
        run([board.core.gcc, *board.core.multilib_flags, *link])
        return board, elf

    return make


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
