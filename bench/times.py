# SPDX-License-Identifier: Apache-2.0
"""How long builds take: `python -m bench.times [--board BOARD]`. Exit code 1 where one takes longer than it may.

Each of two MLPerf Tiny models is built cold, with nothing of a former build, and once more with nothing to do. The
models are looked for in ../shared/zoo/models, or in the folder that --models names.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from bench.anchors import FOLDER, MODELS
from toolchain.request import ROOT

LIMITS = {"kws": 5.0, "vww": 15.0}
"""Seconds of a cold build on two processors."""
AGAIN = 1.5
"""Seconds with nothing to do."""
BOARD = "f4discovery"

Times = tuple[float, float]
"""Seconds by the clock, and of processors: on a busy machine the clock tells little."""


def seconds(*arguments: str) -> Times:
    """What the command line takes. CalledProcessError where it fails."""
    started, before = time.monotonic(), getrusage(RUSAGE_CHILDREN)
    command = [sys.executable, "-P", "-m", "SCons", "-Q", *arguments]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    elapsed, after = time.monotonic() - started, getrusage(RUSAGE_CHILDREN)
    return elapsed, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def builds(name: str, folder: Path, board: str) -> Iterator[tuple[str, Times, float]]:
    """What is done, what it takes, and the seconds by the clock that it may take."""
    path = folder / f"{MODELS[name]}.tflite"
    shutil.rmtree(ROOT / "build" / board / path.stem, ignore_errors=True)
    for what, most in (("cold build", LIMITS[name]), ("build with nothing to do", AGAIN)):
        yield what, seconds(f"board={board}", f"model={path}"), most


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.times", description=__doc__)
    parser.add_argument("--board", default=BOARD)
    parser.add_argument("--models", type=Path, default=FOLDER, help="folder of the MLPerf Tiny .tflite files")
    arguments = parser.parse_args()
    slow = False
    for name in LIMITS:
        for what, (elapsed, worked), most in builds(name, arguments.models, arguments.board):
            print(f"{name}, {what}: {elapsed:.1f} s ({worked:.1f} s of processors), at most {most}", flush=True)
            slow |= elapsed > most
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
