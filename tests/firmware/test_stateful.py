# SPDX-License-Identifier: Apache-2.0
"""State in firmware: first values at the first inference, kept from run to run, restored by a reset. Outputs that
nobody computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from boards.loader import load_board
from compiler.compile import compile_graph
from compiler.graph import DType, Graph, Tensor
from compiler.model import Model
from compiler.passes import run_passes
from tests.firmware.emulated import booted
from tests.streaming import ROW, expected_windows, window_graph
from toolchain.firmware import build_firmware
from toolchain.options import FirmwareOptions
from toolchain.target import target_of

ROWS = np.random.default_rng(1).integers(-128, 128, (4, ROW)).astype(np.int8)


@pytest.mark.parametrize("name", ("qemu_m4", "qemu_rv32ec"))
def test_state_survives_and_is_reset(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    model = compile_graph(window_graph(), Model("window.tflite", b""), target_of(board.core))
    assert model.stateful
    result = build_firmware(board, model, tmp_path, FirmwareOptions())
    assert "void window_reset(void);" in result.header.read_text().splitlines()
    windows = [window.tobytes() for window in expected_windows(ROWS)]
    with booted(board, result.runs) as (console, _):
        # No reset before the first rows: the first inference sets the state.
        assert list(console.run(row.tobytes() for row in ROWS)) == windows
        assert list(console.run([ROWS[0].tobytes()])) != windows[:1]
        console.reset()
        assert list(console.run(row.tobytes() for row in ROWS)) == windows


def test_outputs_that_are_inputs_and_constants(tmp_path: Path) -> None:
    board = load_board("qemu_m3")
    fixed = np.array([9, -8, 7], np.int8)
    tensors = {i: Tensor(i, name, DType.INT8, (3,)) for i, name in enumerate(("x", "unused"))}
    tensors[2] = Tensor(2, "fixed", DType.INT8, (3,), None, fixed)
    graph = run_passes(Graph("pass", tensors, (), (0, 1), (0, 2, 0)))
    model = compile_graph(graph, Model("pass.tflite", b""), target_of(board.core))
    assert not model.stateful
    result = build_firmware(board, model, tmp_path, FirmwareOptions())
    row = np.array([1, 2, 3, 4, 5, 6], np.int8)
    with booted(board, result.runs) as (console, _):
        (found,) = console.run([row.tobytes()])
    assert np.frombuffer(found, np.int8).tolist() == [1, 2, 3, 9, -8, 7, 1, 2, 3]
