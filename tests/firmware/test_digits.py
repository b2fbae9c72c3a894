# SPDX-License-Identifier: Apache-2.0
"""The product's promise on real boards: all 500 digits of the test set give the reference's bytes, within the stack."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from boards.loader import load_board
from compiler.compile import compile_model
from compiler.model import Model
from models.digits import digits
from tests.support import ROOT
from toolchain.emulation import Built, powered
from toolchain.firmware import build_firmware
from toolchain.options import FirmwareOptions
from toolchain.report.contents import read_report
from toolchain.rows import Samples
from toolchain.target import settings_of, target_of


@pytest.mark.parametrize(
    ("board_name", "model_name", "accuracy"),
    [("ch32v307", "mnist_int8", 0.982), ("ch32v003", "mnist_nano_int8", 0.970), ("microbit", "mnist_mlp_int8", 0.962)],
)
def test_all_digits_give_the_reference_bytes(board_name: str, model_name: str, accuracy: float, tmp_path: Path) -> None:
    board, test_set = load_board(board_name), digits(model_name)
    path = ROOT / "models" / f"{model_name}.tflite"
    compiled = compile_model(Model(path.name, path.read_bytes()), target_of(board.core), settings=settings_of(board))
    result = build_firmware(board, compiled, tmp_path, FirmwareOptions())
    built = Built(board, tmp_path, read_report(result.report))
    samples = Samples((test_set.inputs.reshape(-1, *built.inputs[0].shape),), (), None)
    assert len(samples) == 500
    with powered(built, 300) as device:
        (outputs,) = device.infer(samples)
        used = device.stack_used()
    expected = test_set.expected.reshape(outputs.shape)
    assert np.array_equal(outputs, expected), f"{np.count_nonzero(outputs != expected)} elements differ"
    assert np.mean(outputs.reshape(500, -1).argmax(axis=1) == test_set.labels) == pytest.approx(accuracy, abs=1e-9)
    assert used <= built.report["stack"]["bound"]
    assert result.sizes.flash.total <= result.sizes.flash.limit
    assert result.sizes.ram.total <= result.sizes.ram.limit
