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


@pytest.mark.parametrize("name", ("ch32v003", "qemu_m4f"))
def test_what_an_empty_model_takes(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    tensors = [FileTensor("x", (1, 1), scale=0.5), FileTensor("y", (1, 1), scale=0.5)]
    model = Model("empty.tflite", tflite_file(tensors, [FileOperator("NEG", (0,), (1,))], (0,), (1,)))
    result = build_firmware(board, compile_model(model, target_of(board.core)), tmp_path, FirmwareOptions())
    image = read_elf(result.elf.read_bytes())
    vectors = image.section(".vectors")
    assert vectors is not None
    assert vectors.size + image.symbol("Reset_Handler").size + image.symbol("Default_Handler").size <= 400
    assert result.sizes.flash.code <= 3072
