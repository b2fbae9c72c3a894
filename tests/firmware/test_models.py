# SPDX-License-Identifier: Apache-2.0
"""What kinds of models the firmware carries: float outputs, several inputs, state, inputs that do not survive."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from boards.board import Board, Memory
from boards.loader import load_board
from compiler import artifact
from compiler.artifact import CompiledModel, Port
from compiler.graph import DType
from qemu.console import DeviceError
from tests.firmware.emulated import booted
from tests.firmware.fake import expected, fake_model, input_port
from tests.firmware.fake_state import expected as expected_state
from tests.firmware.fake_state import state_model
from toolchain.firmware import FirmwareResult, build_firmware
from toolchain.options import FirmwareOptions


def build(board: Board, model: CompiledModel, out: Path, options: FirmwareOptions | None = None) -> FirmwareResult:
    return build_firmware(board, model, out, options or FirmwareOptions())


@pytest.mark.parametrize("name", ("qemu_m4f", "qemu_m0", "qemu_rv32ec", "qemu_rv32imafc"))
def test_floats_inputs_and_state(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    result = build(board, state_model(board, tmp_path), tmp_path)
    a = np.array([1000, -2, 32767], np.int16)
    b = np.array([[1e-7, -3.5, 2.5e6]], np.float32)
    with booted(board, result.runs) as (console, _):
        assert console.self_test().vectors == 2
        console.reset()
        for run in (1, 2):
            console.load(a.tobytes() + b.tobytes())
            timing = console.infer(1, 0)
            product, counted = expected_state(a, b, run)
            assert console.outputs() == product.tobytes() + counted.tobytes()
            assert np.allclose(timing.results, [*product, *(counted / 32768)], rtol=2e-6, atol=5e-6)


def test_floats_of_every_size_are_printed(tmp_path: Path) -> None:
    board = load_board("qemu_m0")
    result = build(board, state_model(board, tmp_path), tmp_path)
    values = [0.0, -0.0, 1.0, 9.9999995, -1e-45, 3.4028235e38, 1.1754944e-38, 0.1, 123456.789, 1e10, float("inf")]
    rng = np.random.default_rng(1)
    values += list(rng.standard_normal(31) * 10.0 ** rng.integers(-30, 30, 31))
    with booted(board, result.runs) as (console, _):
        for at in range(0, len(values), 3):
            three = np.array(values[at : at + 3], np.float32).astype(np.float64)
            console.load(np.ones(3, np.int16).tobytes() + three.astype(np.float32).tobytes())
            shown = console.infer(1, 0).results[:3]
            assert np.allclose(shown, three, rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("name", ("qemu_m4", "qemu_rv32imac"))
def test_self_test_names_what_differs(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    model = fake_model(board, tmp_path)
    good = model.vectors[1].outputs[0]
    bad = good[:2] + bytes([(good[2] + 1) & 255]) + good[3:]
    spoiled = replace(model, vectors=(model.vectors[0], artifact.TestVector(model.vectors[1].seed, (bad,))))
    result = build(board, spoiled, tmp_path)
    got, want = (int(np.frombuffer(data, np.int8)[2]) for data in (good, bad))
    with booted(board, result.runs) as (console, _):
        assert console.self_test().failure == f"vector 1 output 0 index 2 got {got} want {want}"


@pytest.mark.parametrize(("spoil", "passes"), ((0.0, True), (1e-6, True), (0.5, False)))
def test_float_outputs_are_tested_with_the_stated_tolerance(tmp_path: Path, spoil: float, passes: bool) -> None:
    board = load_board("qemu_m4f")
    result = build(board, state_model(board, tmp_path, spoil), tmp_path)
    with booted(board, result.runs) as (console, _):
        failure = console.self_test().failure
        assert (failure is None) == passes
        assert passes or str(failure).startswith("vector 1 output 0 index 0 got ")


def test_an_overwritten_input_is_kept_where_there_is_room(tmp_path: Path) -> None:
    board = load_board("qemu_m3")
    image = np.arange(32, dtype=np.int8)
    result = build(board, fake_model(board, tmp_path, body="fake_arena[0] = 99;", overwrites=True), tmp_path)
    with booted(board, result.runs) as (console, _):
        console.load(image.tobytes())
        console.infer(3, 2)
        assert console.outputs() == expected(image).tobytes()
        assert console.self_test().failure is None


def test_a_copy_of_inputs_with_elements_of_several_sizes_holds_all_their_bytes(tmp_path: Path) -> None:
    board = load_board("qemu_m3")
    getters = "int32_t *fake_input_1(void) { return (int32_t *)(fake_arena + 36); }"
    getters += "int8_t *fake_input_2(void) { return (int8_t *)(fake_arena + 40); }"
    wide = Port("fake_input_1", "wide", DType.INT32, (1,), 4, 36, (), ())
    odd = Port("fake_input_2", "odd", DType.INT8, (1, 3), 3, 40, (), ())
    model = fake_model(board, tmp_path, body="fake_arena[0] = 99;", extra=getters, overwrites=True, vectors=())
    result = build(board, replace(model, inputs=(wide, input_port(), odd)), tmp_path)
    with result.elf.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".symtab")
        assert isinstance(symbols, SymbolTableSection)
        kept = symbols.get_symbol_by_name("kept_input")
    assert kept is not None
    assert [size for symbol in kept if 39 <= (size := symbol["st_size"]) < 39 + 4]
    sent = bytes([1, 2, 3, 4, *range(32), 5, 6, 7])
    with booted(board, result.runs) as (console, _):
        console.load(sent)
        console.infer(3, 2)
        assert console.outputs() == expected(np.arange(32, dtype=np.int8)).tobytes()
        assert "".join(console.command("db print")).replace("m-buffer", "").replace("-", "") == sent.hex().upper()


def test_an_overwritten_input_without_room_allows_one_run(tmp_path: Path) -> None:
    image = np.arange(32, dtype=np.int8)
    board = load_board("qemu_m3")
    model = fake_model(board, tmp_path, body="fake_arena[0] = 99;", overwrites=True)
    small = shrunk(board, build(board, model, tmp_path).sizes.ram.total - 16)
    result = build(small, model, tmp_path)
    with booted(small, result.runs) as (console, _):
        console.load(image.tobytes())
        with pytest.raises(DeviceError, match="overwrites its input"):
            console.infer(2, 0)
        console.infer(1, 0)
        assert console.outputs() == expected(image).tobytes()


def shrunk(board: Board, ram: int) -> Board:
    """The board with `ram` bytes of RAM, run as it is."""
    memories = (board.flash, replace(board.ram, size=ram))
    return replace(board, memories=memories, emulator=replace(board.emulator, memories=memories))


def test_the_arena_takes_the_bank_that_holds_it(tmp_path: Path) -> None:
    board = load_board("qemu_m3")
    second = Memory("SECOND", board.ram.kind, board.ram.origin + 0x10000, 0x2000)
    memories = (board.flash, replace(board.ram, size=1024), second)
    emulator = replace(board.emulator, memories=memories)
    banked = replace(board, memories=memories, arena_banks=(board.ram.name, "SECOND"), emulator=emulator)
    result = build(banked, fake_model(board, tmp_path, arena=4096), tmp_path)
    assert result.sizes.ram.arena == 4096
    with booted(banked, result.runs) as (console, _):
        assert console.self_test().vectors == 3


def test_without_console(tmp_path: Path) -> None:
    board = load_board("qemu_m4")
    model = fake_model(board, tmp_path)
    talking = build(board, model, tmp_path / "a").sizes.flash.total
    assert build(board, model, tmp_path / "b", FirmwareOptions(console="none")).sizes.flash.total < talking - 1500
