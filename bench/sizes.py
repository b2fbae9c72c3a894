# SPDX-License-Identifier: Apache-2.0
"""What images take of flash, beside what they should: `python -m bench.sizes`.

Whole images of the MLPerf Tiny models and of mnist_nano_int8 at optimize=size, and the code of the former at
optimize=speed, nothing run. Models are looked for in models/ and in ../shared/zoo/models, or in the folder that
--models names. Exit code 1 where a figure is above its target.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.anchors import FOLDER, MODELS
from boards.loader import load_board
from compiler.compile import as_stated, compile_model, prepare
from compiler.graph import Graph
from compiler.model import Model
from compiler.settings import Optimize, Settings
from toolchain.firmware import FirmwareResult, build_firmware
from toolchain.options import FirmwareOptions
from toolchain.report.columns import Column
from toolchain.report.terminal import Terminal
from toolchain.request import ROOT
from toolchain.target import target_of

BESIDE_WEIGHTS = 6 * 1024
SPEED_CODE = 14 * 1024
IC_ARENA = 36 * 1024
BOARDS = {"M4": "qemu_m4f", "RV32IMAC": "qemu_rv32imac"}
BELOW_WEIGHTS = ("vww", "ad")
"""Whose images should be smaller than the constants of their model: channels are dead in one, the other compresses."""
NANO = "mnist_nano_int8"
NANO_ALONE = {"M4": 5 * 1024, "RV32IMAC": 6 * 1024}
SMALL_BOARD = "ch32v003"


@dataclass(frozen=True)
class Size:
    """Bytes of something, and how many it should have at most."""

    model: str
    core: str
    what: str
    bytes: int
    target: int


def weights_of(graph: Graph) -> int:
    """Bytes of a graph's constants, biases included. In the graph that is compiled, they are those of live channels."""
    return sum(tensor.bytes for tensor in graph.tensors.values() if tensor.is_constant)


def build(model: Model, board_name: str, optimize: Optimize, console: str) -> FirmwareResult:
    """UserError where the image cannot be built."""
    board = load_board(board_name)
    compiled = compile_model(model, target_of(board.core), settings=Settings(optimize))
    with tempfile.TemporaryDirectory(prefix="tinykiln-") as folder:
        return build_firmware(board, compiled, Path(folder), FirmwareOptions(console, optimize=optimize.value))


def sizes(folder: Path) -> Iterator[Size]:
    """All figures, one after another."""
    for name in MODELS:
        yield from model_sizes(name, folder)
    yield from nano_sizes()


def model_sizes(name: str, folder: Path) -> Iterator[Size]:
    """Those of one of MODELS."""
    model = _read(folder / f"{MODELS[name]}.tflite")
    most = weights_of(prepare(model)) + BESIDE_WEIGHTS
    for core, board in BOARDS.items():
        built = build(model, board, Optimize.SIZE, "none").sizes
        yield Size(name, core, "image, size", built.flash.total, most)
        if name in BELOW_WEIGHTS:
            yield Size(name, core, "image beside all weights, size", built.flash.total, weights_of(as_stated(model)))
        if (name, core) == ("ic", "M4"):
            yield Size(name, core, "arena, size", built.ram.arena, IC_ARENA)
    fast = build(model, BOARDS["M4"], Optimize.SPEED, "none").sizes
    yield Size(name, "M4", "code, speed", fast.flash.code, SPEED_CODE)


def nano_sizes() -> Iterator[Size]:
    """Those of the smallest model."""
    nano = _read(ROOT / "models" / f"{NANO}.tflite")
    for core, board in BOARDS.items():
        built = build(nano, board, Optimize.SIZE, "none").sizes
        yield Size(NANO, core, "image, size", built.flash.total, NANO_ALONE[core])
    small = build(nano, SMALL_BOARD, Optimize.SIZE, "auto").sizes.flash
    yield Size(NANO, SMALL_BOARD, "image with console, size", small.total, small.limit)


def _read(path: Path) -> Model:
    return Model(path.name, path.read_bytes())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.sizes", description=__doc__)
    parser.add_argument("--models", type=Path, default=FOLDER, help="folder of the MLPerf Tiny .tflite files")
    terminal, rows, above = Terminal(), [], 0
    for size in sizes(parser.parse_args().models):
        terminal.stage(size.model, f"{size.core}: {size.what} {size.bytes:,}")
        over = size.bytes - size.target
        above += over > 0
        rows.append((size.model, size.core, size.what, size.bytes, size.target, over if over > 0 else ""))
    numbers = (Column(name, number=True) for name in ("bytes", "target", "above"))
    terminal.table((Column("model"), Column("core"), Column("figure"), *numbers), rows)
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
