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

CASES = (("ch32v003", 2304), ("qemu_rv32imac", 2304), ("qemu_m4f", 2560), ("nucleo_f401", 2560))
"""Bytes of flash at most."""
TENSORS = [FileTensor("x", (1, 1), scale=0.5), FileTensor("y", (1, 1, 1), scale=0.5)]
EMPTY = Model("empty.tflite", tflite_file(TENSORS, [FileOperator("RESHAPE", (0,), (1,))], (0,), (1,)))


@pytest.mark.parametrize(("name", "most"), CASES)
def test_what_an_empty_model_takes(tmp_path: Path, name: str, most: int) -> None:
    board = load_board(name)
    result = build_firmware(board, compile_model(EMPTY, target_of(board.core)), tmp_path, FirmwareOptions())
    assert result.sizes.flash.constants == 0 and result.sizes.flash.total <= most
    image = read_elf(result.elf.read_bytes())
    vectors = image.section(".vectors")
    assert vectors is not None
    functions = ("Reset_Handler", "Default_Handler", "firmware_init")
    assert vectors.size + sum(image.symbol(function).size for function in functions) <= 400
