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
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from bench.anchors import FOLDER, MODELS
from toolchain.request import ROOT

LIMITS = {"kws": 5.0, "vww": 15.0}
"""Seconds of a cold build on two processors."""
AGAIN = 1.5
"""Seconds with nothing to do."""


def seconds(*arguments: str) -> tuple[float, float]:
    """What the command line takes by the clock, and of processors: on a busy machine the clock tells little.
    CalledProcessError where it fails."""
    started, before = time.monotonic(), getrusage(RUSAGE_CHILDREN)
    command = [sys.executable, "-P", "-m", "SCons", "-Q", *arguments]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    elapsed, after = time.monotonic() - started, getrusage(RUSAGE_CHILDREN)
    return elapsed, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.times", description=__doc__)
    parser.add_argument("--board", default="f4discovery")
    parser.add_argument("--models", type=Path, default=FOLDER, help="folder of the MLPerf Tiny .tflite files")
    arguments = parser.parse_args()
    slow = False
    for name, limit in LIMITS.items():
        path = arguments.models / f"{MODELS[name]}.tflite"
        shutil.rmtree(ROOT / "build" / arguments.board / path.stem, ignore_errors=True)
        cold, again = (seconds(f"board={arguments.board}", f"model={path}") for _ in range(2))
        told = ((f"{name} cold", cold, limit), (f"{name} with nothing to do", again, AGAIN))
        for what, (elapsed, worked), most in told:
            print(f"{what}: {elapsed:.1f} s ({worked:.1f} s of processors), at most {most}", flush=True)
            slow |= elapsed > most
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
