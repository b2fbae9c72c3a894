# SPDX-License-Identifier: Apache-2.0
"""What images take: besides their model (start-up alone, and start-up with console, self-test and fault report), and
whole networks at optimize=size."""

from __future__ import annotations

from pathlib import Path

import pytest

from boards.loader import load_board
from compiler.compile import compile_model
from compiler.model import Model
from compiler.settings import Optimize, Settings
from tests.support import shared_dir
from tests.tflite_files import FileOperator, FileTensor, tflite_file
from toolchain.elf.file import read_elf
from toolchain.firmware import build_firmware
from toolchain.options import FirmwareOptions
from toolchain.target import target_of

CASES = (
    ("ch32v003", "auto", 1536),
    ("ch32v003", "uart", 2336),
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


NETWORKS = (
    ("mlperf_kws_dscnn_int8", "qemu_m4f", 30_520),
    ("mlperf_kws_dscnn_int8", "qemu_rv32imac", 30_950),
    ("mlperf_vww_mobilenet_int8", "qemu_m4f", 45_000),
    ("mlperf_ic_resnet_int8", "qemu_rv32imac", 85_900),
)
"""Bytes of flash at most, without console."""


@pytest.mark.parametrize(("network", "name", "most"), NETWORKS)
def test_what_networks_take_at_size(tmp_path: Path, network: str, name: str, most: int) -> None:
    path = shared_dir("zoo/models") / f"{network}.tflite"
    board = load_board(name)
    compiled = compile_model(
        Model(path.name, path.read_bytes()), target_of(board.core), settings=Settings(Optimize.SIZE)
    )
    built = build_firmware(board, compiled, tmp_path, FirmwareOptions("none", optimize=Optimize.SIZE.value))
    assert built.sizes.flash.total <= most
