# SPDX-License-Identifier: Apache-2.0
"""One process at a time on a build folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

HOLD = """
import sys
from pathlib import Path
from toolchain.lock import hold
hold(Path("the folder"), Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def holder(path: Path) -> subprocess.Popen[str]:
    """A process that holds the lock until its input ends."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", HOLD, str(path)]
    return subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline()


@pytest.mark.parametrize("removed", [False, True])
def test_the_second_waits_for_the_first(tmp_path: Path, removed: bool) -> None:
    path = tmp_path / "board" / "model.lock"
    with holder(path) as first:
        assert line(first) == "held\n"
        with holder(path) as second:
            assert second.stderr
            assert second.stderr.readline() == "kiln: waiting for another one that works in the folder\n"
            if removed:
                path.unlink()
            first.communicate("")
            assert line(second) == "held\n"
            # What the second holds is what a third one finds.
            with holder(path) as third:
                assert third.stderr
                assert "waiting" in third.stderr.readline()
                second.communicate("")
                assert line(third) == "held\n"
                third.communicate("")


def test_locks_of_two_folders_do_not_meet(tmp_path: Path) -> None:
    with holder(tmp_path / "one.lock") as first, holder(tmp_path / "two.lock") as second:
        assert [line(first), line(second)] == ["held\n", "held\n"]
        first.communicate("")
        second.communicate("")
