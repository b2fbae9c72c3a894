# SPDX-License-Identifier: Apache-2.0
"""Measuring kernels, and what a build makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from boards.loader import load_board
from compiler.compile import compile_model, prepare
from compiler.costs import Costs
from compiler.errors import UserError
from compiler.fusion import scheduled
from compiler.isa import load_isa
from compiler.model import Model
from compiler.pricing import instructions_of
from compiler.settings import Optimize, Settings
from qemu.profile import profile
from tests.support import ROOT
from toolchain.firmware import build_firmware
from toolchain.measure import search as searching
from toolchain.measure.calls import candidates_in, unknown
from toolchain.options import FirmwareOptions
from toolchain.target import target_of

BOARD = load_board("qemu_m4f")
MODEL = Model("mnist_nano_int8.tflite", (ROOT / "models" / "mnist_nano_int8.tflite").read_bytes())


def measured(scheduler: str = "") -> Costs:
    candidates = unknown(candidates_in(prepare(MODEL), load_isa(target_of(BOARD.core))), Costs())
    told: list[tuple[int, int]] = []
    costs = searching.search(BOARD, candidates, scheduler, lambda *done: told.append(done))
    assert told and told[-1][0] == told[-1][1]
    assert unknown(candidates, costs) == []
    return costs


def test_what_was_measured_is_what_the_firmware_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "find_spec", lambda _: None)
    costs, settings = measured(), Settings(Optimize.SPEED)
    model = compile_model(MODEL, target_of(BOARD.core), settings=settings)
    firmware = build_firmware(BOARD, model, tmp_path, FirmwareOptions())
    counted = profile(
        BOARD, firmware.runs, model.prefix, len(model.dispatches), [bytes(model.inputs[0].bytes)]
    ).inferences[0]
    chosen = scheduled(prepare(MODEL), load_isa(target_of(BOARD.core)), Settings(Optimize.SPEED, costs=costs), 0)
    sums = [instructions_of(d.lowered, costs) for d in chosen.dispatches]
    # A call's table may be an instruction further away.
    assert sums == pytest.approx(counted.dispatches, abs=2)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_cluster_does_the_same_as_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="requirements-tune.lock is not installed")
    costs = measured()
    monkeypatch.setattr(searching, "find_spec", lambda _: None)
    assert measured() == costs


def test_a_scheduler_wants_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "find_spec", lambda _: None)
    with pytest.raises(UserError, match="Dask is not installed"):
        measured("tcp://127.0.0.1:1")
