# SPDX-License-Identifier: Apache-2.0
"""Measures the kernels of common layers for the choice of kernels: `python -m bench.tune [ISA ...]`.

Writes compiler/measured/<isa>.json: what the kernels take that could run the layers of bench.layer_set, the models in
models/ and the MLPerf Tiny models (in ../shared/zoo/models, or the folder that --models names). What was measured
of the same code is kept; --check only tells whether all is there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from math import prod
from pathlib import Path

from bench.anchors import FOLDER, MODELS
from bench.layer_set import layers
from bench.layers import lower, shapes
from boards.loader import load_board
from compiler.compile import prepare
from compiler.costs import Costs, shipped_file, shipped_path
from compiler.isa import Isa, load_isa
from compiler.kernels.compact import quick
from compiler.model import Model
from compiler.pricing import cost_file, still_known
from toolchain.files import write_text
from toolchain.measure.calls import Candidate, candidates_in, unknown
from toolchain.measure.search import search
from toolchain.report.terminal import Terminal
from toolchain.request import ROOT
from toolchain.target import target_of

BOARDS = {
    "armv6m": "qemu_m0",
    "armv7m": "qemu_m3",
    "dsp": "qemu_m4f",
    "mve": "qemu_m55",
    "rv32e": "qemu_rv32ec",
    "rv32im": "qemu_rv32imac",
}
"""The board whose core stands for all of an instruction set."""


def candidates(isa: Isa, folder: Path) -> Iterator[Candidate]:
    """The lowerings of the common layers."""
    for layer in layers().values():
        lowered, (shape_in, shape_out) = lower(isa, layer), shapes(layer)
        for one in quick(lowered):
            yield Candidate(one, (prod(shape_in),), (prod(shape_out),))
    for path in (*sorted((ROOT / "models").glob("*.tflite")), *(folder / f"{name}.tflite" for name in MODELS.values())):
        yield from candidates_in(prepare(Model(path.name, path.read_bytes())), isa)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tune", description=__doc__)
    parser.add_argument("isa", nargs="*", choices=[*BOARDS, []], help="instruction sets; all without")
    parser.add_argument("--models", type=Path, default=FOLDER, help="folder of the MLPerf Tiny .tflite files")
    parser.add_argument("--scheduler", default="", help="address of a Dask scheduler; default: this machine")
    parser.add_argument("--check", action="store_true", help="measure nothing; exit code 1 where something is to do")
    arguments = parser.parse_args()
    terminal, missing = Terminal(), 0
    for name in arguments.isa or BOARDS:
        board, file = load_board(BOARDS[name]), shipped_file(name)
        target = target_of(board.core)
        every = list(candidates(load_isa(target), arguments.models))
        calls = [call for candidate in every for call in candidate.lowered.calls]
        known = Costs() if file is None else still_known(file, target, calls)
        left = unknown(every, known)
        terminal.stage(name, f"{len(left):,} of {len(every):,} lowerings to measure")
        missing += len(left)
        if not arguments.check:

            def told(done: int, programs: int, name: str = name) -> None:
                terminal.stage(name, f"program {done} of {programs}")

            costs = known.joined(search(board, left, arguments.scheduler, told))
            write_text(shipped_path(name), cost_file(target, calls, costs).text)
    return 1 if arguments.check and missing else 0


if __name__ == "__main__":
    sys.exit(main())
