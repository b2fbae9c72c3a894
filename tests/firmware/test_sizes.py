# SPDX-License-Identifier: Apache-2.0
"""What an image takes besides its model: start-up alone, and start-up with console, self-test and fault report."""

from __future__ import annotations

from pathlib import Path

import pytest

from boards.loader import load_board
from compiler.compile import compile_model
from compiler.model import Model
from tests.tflite_files import FileOperator, FileTensor, tflite_file
from toolchain.elf import read_elf
from toolchain.firmware import build_firmware
from toolchain.options import FirmwareOptions
from toolchain.target import target_of

CASES = (
    ("ch32v003", "auto", 1536),
    ("ch32v003", "uart", 2304),
    ("ch32v003", "none", 576),
    ("qemu_rv32imac", "auto", 2304),
    ("qemu_m4f", "auto", 2560),
    ("qemu_m4f", "compact", 1536),
    ("nucleo_f401", "auto", 2560),
    ("nucleo_f401", "compact", 1664),
    ("qemu_m4f", "none", 672),
)
"""Board, console, and bytes of flash at most."""
TENSORS = [FileTensor("x", (1, 1), scale=0.5), FileTensor("y", (1, 1, 1), scale=0.5)]
EMPTY = Model("empty.tflite", tflite_file(TENSORS, [FileOperator("RESHAPE", (0,), (1,))], (0,), (1,)))


@pytest.mark.parametrize(("name", "console", "most"), CASES)
def test_what_an_empty_model_takes(tmp_path: Path, name: str, console: str, most: int) -> None:
    board = load_board(name)
    result = build_firmware(board, compile_model(EMPTY, target_of(board.core)), tmp_path, FirmwareOptions(console))
    assert result.sizes.flash.constants == 0 and result.sizes.flash.total <= most
    image = read_elf(result.elf.read_bytes())
    vectors = image.section(".vectors")
    assert vectors is not None
    functions = ("Reset_Handler", "Default_Handler", "firmware_init")
    assert vectors.size + sum(image.symbol(function).size for function in functions) <= 400
