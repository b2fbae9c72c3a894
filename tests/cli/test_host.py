# SPDX-License-Identifier: Apache-2.0
"""The command line on the building machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support import ROOT


def kiln(*arguments: str, board: str = "host") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "SCons", "-C", str(ROOT), f"board={board}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_infer_and_verify(tmp_path: Path) -> None:
    golden = ROOT / "models" / "mnist_int8.npz"
    done = kiln("model=mnist_int8", f"input={golden}", f"output={tmp_path / 'out.npz'}", "infer", "verify")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all 8 operators agree" in done.stdout or "no other runtime is installed" in done.stdout
    assert "\nPASS  " in done.stdout
    with np.load(tmp_path / "out.npz") as found, np.load(golden) as expected:
        assert np.array_equal(found["out0"], expected["out0"].reshape(found["out0"].shape))


@pytest.mark.parametrize("board", ["host", "qemu_m0"])
def test_verify_by_infinities_and_nans(board: str, tmp_path: Path) -> None:
    rows = np.zeros((4, 28, 28, 1), np.float32)
    rows[0], rows[1], rows[2] = np.nan, np.inf, -np.inf
    rows[3, ::3], rows[3, 1::3], rows[3, 2::3] = np.inf, np.nan, 3e38
    np.savez(tmp_path / "special.npz", in0=rows)
    done = kiln("model=mnist_float", f"input={tmp_path / 'special.npz'}", "verify", board=board)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nPASS  " in done.stdout


def test_what_needs_a_board_is_refused() -> None:
    done = kiln("model=mnist_int8", "profile")
    assert done.returncode == 2
    assert "the building machine is no board: it has no 'profile'" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
