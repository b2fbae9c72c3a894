# SPDX-License-Identifier: Apache-2.0
"""The compact console: the same client drives it, on each family of cores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from boards.loader import load_board
from compiler.compile import compile_graph
from compiler.errors import UserError
from compiler.model import Model
from qemu.console import ConsoleError, DeviceError
from tests.firmware.emulated import booted
from tests.firmware.fake import expected, fake_model
from tests.streaming import ROW, expected_windows, window_graph
from toolchain.benchmark import BENCHMARKS
from toolchain.firmware import FirmwareResult, build_firmware
from toolchain.options import FirmwareOptions
from toolchain.report.contents import read_report
from toolchain.target import target_of

COMPACT = FirmwareOptions(console="compact")
BOARDS = ("ch32v003", "hifive1b", "microbit", "qemu_m3", "qemu_m55", "qemu_rv32imafc")
IMAGES = np.random.default_rng(3).integers(-128, 128, (3, 32)).astype(np.int8)


def build(name: str, folder: Path, body: str = "", overwrites: bool = False) -> FirmwareResult:
    board = load_board(name)
    return build_firmware(board, fake_model(board, folder, body=body, overwrites=overwrites), folder, COMPACT)


@pytest.mark.parametrize("name", BOARDS)
def test_all_that_a_host_needs(tmp_path: Path, name: str) -> None:
    result = build(name, tmp_path)
    with booted(load_board(name), result.runs) as (console, _):
        assert (console.name(), console.model()) == (name, "fake")
        assert list(console.run(image.tobytes() for image in IMAGES)) == [expected(i).tobytes() for i in IMAGES]
        assert console.outputs() == expected(IMAGES[-1]).tobytes()
        assert console.self_test().vectors == 3
        used, size = console.stack()
        assert 0 < used <= size
        assert console.command("") == console.command("\r\n") == []
        with pytest.raises(ConsoleError, match="console=uart"):
            console.infer()


@pytest.mark.parametrize(
    "command",
    ("nonsense", "outx", "in", "help", "results", "timestamp", "cycles", "reset",
     "db", "db 0", "db 0g", "db 00 ", "db 1A1")
)  # fmt: skip
def test_refuses(tmp_path: Path, command: str) -> None:
    result = build("qemu_m3", tmp_path)
    with booted(load_board("qemu_m3"), result.runs) as (console, _):
        with pytest.raises(DeviceError, match=r"e-\["):
            console.command(command)
        assert console.name() == "qemu_m3"


def test_an_input_in_part_or_with_a_bad_line_is_not_run(tmp_path: Path) -> None:
    result = build("qemu_rv32ec", tmp_path)
    row = IMAGES[0].tobytes().hex()
    with booted(load_board("qemu_rv32ec"), result.runs) as (console, _):
        for lines in (["db load 32", "db " + row[:62]], ["db load 32", "db x", "db " + row]):
            for line in lines:
                if line == "db x":
                    with pytest.raises(DeviceError, match="Bad argument"):
                        console.command(line)
                else:
                    console.command(line)
            with pytest.raises(DeviceError, match="Bad argument"):
                console.command("infer")
        # Lines of any length, either case; what is too much is left out.
        for line in ("db load 32", "db " + row[:2].upper(), "db " + row[2:] + "00" * 40, "infer"):
            console.command(line)
        assert console.outputs() == expected(IMAGES[0]).tobytes()
        assert console.self_test().failure is None


def test_an_overwritten_input_is_not_kept(tmp_path: Path) -> None:
    result = build("qemu_m3", tmp_path, "fake_arena[0] = 99;", overwrites=True)
    with booted(load_board("qemu_m3"), result.runs) as (console, _):
        assert list(console.run(image.tobytes() for image in IMAGES)) == [expected(i).tobytes() for i in IMAGES]
    assert result.sizes.ram.static < 32


def test_self_test_names_what_differs(tmp_path: Path) -> None:
    board = load_board("ch32v003")
    model = fake_model(board, tmp_path)
    good = model.vectors[1]
    bad = good.outputs[0][:2] + bytes([good.outputs[0][2] ^ 1]) + good.outputs[0][3:]
    spoiled = replace(model, vectors=(model.vectors[0], replace(good, outputs=(bad,))))
    result = build_firmware(board, spoiled, tmp_path, COMPACT)
    with booted(board, result.runs) as (console, _):
        assert console.self_test().failure == "vector 1 output 0 index 2"


def test_a_fault_is_reported(tmp_path: Path) -> None:
    result = build("ch32v003", tmp_path, '__asm__ volatile("unimp");')
    told = r"e-\[Fault cause 00000002 pc \w{8} ra \w{8} dispatch 1 SOFTMAX]"
    with booted(load_board("ch32v003"), result.runs) as (console, _), pytest.raises(DeviceError, match=told):
        console.command("infer 1 0")


@pytest.mark.parametrize("name", ("qemu_m4", "qemu_rv32ec"))
def test_state_is_reset(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    model = compile_graph(window_graph(), Model("window.tflite", b""), target_of(board.core))
    result = build_firmware(board, model, tmp_path, COMPACT)
    rows = np.random.default_rng(1).integers(-128, 128, (4, ROW)).astype(np.int8)
    windows = [window.tobytes() for window in expected_windows(rows)]
    with booted(board, result.runs) as (console, _):
        assert list(console.run(row.tobytes() for row in rows)) == windows
        console.reset()
        assert list(console.run(row.tobytes() for row in rows)) == windows


def test_who_has_it_unasked(tmp_path: Path) -> None:
    small, large = load_board("ch32v003"), load_board("ch32v307")
    assert FirmwareOptions().on(small).console == "compact"
    assert FirmwareOptions().on(large).console == "uart"
    assert FirmwareOptions(console="uart").on(small).console == "uart"
    assert FirmwareOptions(benchmark=BENCHMARKS["kws01"]).on(small).console == "uart"
    result = build_firmware(small, fake_model(small, tmp_path), tmp_path, FirmwareOptions())
    assert read_report(result.report)["console"] == "compact"
    with pytest.raises(UserError, match="without the runner's commands"):
        FirmwareOptions(console="compact", benchmark=BENCHMARKS["kws01"]).check(["one.tflite"])
    with pytest.raises(UserError, match="the console runs one model"):
        COMPACT.check(["one.tflite", "two.tflite"])
