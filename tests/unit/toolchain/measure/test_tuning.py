# SPDX-License-Identifier: Apache-2.0
"""Tuning files as the user's input, and the emulated boards that measure."""

from __future__ import annotations

from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from boards.loader import load_board
from compiler.costs import CostFile, Costs, Family
from compiler.errors import UserError
from toolchain.measure.calls import roomy_board
from toolchain.measure.tuning import read_tuning

CORE = load_board("f4discovery").core


def written(file: CostFile, folder: Path) -> Path:
    path = folder / "tuning.json"
    path.write_text(file.text)
    return path


@pytest.fixture
def file() -> CostFile:
    return CostFile(CORE.isa, CORE.name, metadata.version("llvmlite"), {})


def test_a_tuning_file_is_of_its_core_and_version(file: CostFile, tmp_path: Path) -> None:
    assert read_tuning(written(file, tmp_path), CORE) == file
    with pytest.raises(UserError, match="another core"):
        read_tuning(written(replace(file, core="cortex-m7"), tmp_path), CORE)
    stale = replace(file, families={"compiler.kernels.overlap": Family("0", {}, Costs())})
    with pytest.raises(UserError, match=r"other kernels(.|\n)*compiler\.kernels\.overlap(.|\n)*tune"):
        read_tuning(written(stale, tmp_path), CORE)
    assert read_tuning(written(stale, tmp_path), CORE, allow_stale=True) == stale


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="no tuning file"):
        read_tuning(path, CORE)


@pytest.mark.parametrize("name", ["f4discovery", "pico", "teensy40", "ch32v003", "ch32v307", "esp32c3", "pico2"])
def test_there_is_a_roomy_board_for_each_core(name: str) -> None:
    core = load_board(name).core
    board = roomy_board(core)
    assert board.core == core
    assert board.constants.size >= 1 << 19
