# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.fuzz FIRST [COUNT] [--oracle PYTHON] [--core CORE ...]`: random models until it is stopped.

Each hundred is compared with the installed oracles, and run on the cores. Exit code 1 where something differed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from itertools import count
from pathlib import Path

from tests.fuzz.checks import contradictions, differences
from tests.programs import core_boards
from toolchain.oracles.runtimes import find_oracles

STEP = 100


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="compares random models")
    parser.add_argument("first", type=int, help="first seed")
    parser.add_argument("count", type=int, nargs="?", help="number of seeds; without end where not given")
    parser.add_argument("--oracle", type=Path, action="append", default=[], help="a Python with other runtimes")
    parser.add_argument("--core", action="append", default=[], choices=["host", *core_boards()])
    given = parser.parse_args()
    oracles = [oracle for oracle in find_oracles(given.oracle) if oracle.kernels != "xnnpack"]
    faults = 0
    for start in count(given.first, STEP):
        if given.count is not None and start >= given.first + given.count:
            break
        seeds = range(start, start + STEP)
        told = [line for oracle in oracles for line in contradictions(seeds, oracle)[0]]
        for core in given.core or ["host"]:
            with tempfile.TemporaryDirectory() as folder:
                told += [f"{core}: {line}" for line in differences(seeds, core, Path(folder))]
        print(f"seeds {start} to {seeds[-1]}: {len(told)} differ", *told, sep="\n  ", flush=True)
        faults += len(told)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
