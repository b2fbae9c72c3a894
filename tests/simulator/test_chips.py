# SPDX-License-Identifier: Apache-2.0
"""firmware.elf, unchanged, in an independent simulator of the chip: boot, console, and a network bit for bit.

The simulator (labwired 0.25) lacks some instructions, which then fault: SSAT and USAT, VCMPE, VMLA. So each instruction
set runs the network whose code has none of them; QEMU runs them all.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from boards.loader import board_names, load_board
from compiler.artifact import CompiledModel
from compiler.compile import compile_model
from compiler.model import Model
from tests.simulator.chips import simulated
from toolchain.firmware import build_firmware
from toolchain.options import FirmwareOptions
from toolchain.target import target_of

MODELS = Path(__file__).parents[2] / "models"
NETWORKS = {"armv6m": "mnist_int8", "rv32im": "mnist_int8", "armv7m": "mnist_nano_float", "dsp": "mnist_int16x8"}
"""By kernel set."""
MAIN_BANK = {"f4discovery": "RAM"}
"""Where the simulator lacks a RAM bank of the chip: the bank to use instead."""
OVER_DRIVE = ("f746discovery",)
"""Full speed waits for over-drive (PWR_CSR1.ODRDY), which the simulator does not have."""

BOARDS = tuple(name for name in board_names() if load_board(name).simulator)


def test_the_simulator_has_many_of_our_chips() -> None:
    assert len({load_board(name).simulator for name in BOARDS}) >= 10


@pytest.mark.parametrize("name", BOARDS)
def test_a_network_is_bit_exact_on_the_chip(name: str, tmp_path: Path) -> None:
    board = load_board(name)
    network = NETWORKS[board.core.isa]
    options = FirmwareOptions(arena=MAIN_BANK.get(name, ""))
    result = build_firmware(board, compiled(board.core.name, network), tmp_path, options)
    with np.load(MODELS / f"{network}.npz") as golden:
        row, wanted = golden["in0"][0].tobytes(), golden["out0"][0].tobytes()
    with simulated(board, result.elf) as (console, _):
        assert console.name() == name
        (found,) = console.run([row])
    assert found == wanted


@pytest.mark.parametrize("name", [n for n in BOARDS if len(load_board(n).clocks) > 1 and n not in OVER_DRIVE])
def test_full_speed_boots_on_the_chip(name: str, tmp_path: Path) -> None:
    board = load_board(name)
    model = compiled(board.core.name, "mnist_nano_int8")
    options = FirmwareOptions(clock="max", arena=MAIN_BANK.get(name, ""))
    with simulated(board, build_firmware(board, model, tmp_path, options).elf) as (console, sim):
        assert console.name() == name
        waits = [step for step in board.clocks[1].console.setup if step.wait]
        unmet = [step for step in waits if sim.read_u32(step.address) & step.wait != step.wait]
    assert not unmet


@pytest.mark.parametrize(
    ("name", "counter"),
    (("bluepill", "DWT CYCCNT"), ("nucleo_f401", "DWT CYCCNT"), ("nucleo_u575", "DWT CYCCNT"), ("pico", "SysTick")),
)
def test_the_cycles_of_the_dispatches_make_up_the_time_of_an_inference(name: str, counter: str, tmp_path: Path) -> None:
    board = load_board(name)
    model = compiled(board.core.name, NETWORKS[board.core.isa])
    result = build_firmware(board, model, tmp_path, FirmwareOptions(console="profile"))
    with simulated(board, result.elf) as (console, _):
        console.load(bytes(model.inputs[0].bytes))
        counted = console.cycles()
        microseconds = console.infer().microseconds
    assert counted.counter == counter and len(counted.dispatches) == len(model.dispatches)
    assert min(counted.dispatches) > 0
    expected = microseconds * board.clock_hz / 1e6
    assert abs(sum(counted.dispatches) - expected) < 0.02 * expected


@cache
def compiled(core: str, network: str) -> CompiledModel:
    """Once for all boards of a core."""
    board = next(board for board in map(load_board, BOARDS) if board.core.name == core)
    path = MODELS / f"{network}.tflite"
    return compile_model(Model(path.name, path.read_bytes()), target_of(board.core))
