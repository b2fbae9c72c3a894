# SPDX-License-Identifier: Apache-2.0
"""The MLPerf Tiny models on four cores beside TFLite Micro with CMSIS-NN: `python -m bench.models [MODEL ...]`.

Each is built as firmware for the emulated board of its core, run on random inputs and counted exactly. The models are
looked for in ../shared/zoo/models, or in the folder that --models names. Exit code 1 where a ceiling is exceeded.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench import peers
from bench.anchors import ANCHORS, BOARDS, CEILINGS, CODE_CEILINGS, FOLDER, MODELS, Anchor
from boards.loader import load_board
from compiler.compile import compile_model
from compiler.model import Model
from compiler.settings import Optimize, Settings
from qemu.profile import profile
from toolchain.commands.profile import random_rows
from toolchain.emulation import Built
from toolchain.firmware import build_firmware
from toolchain.options import FirmwareOptions
from toolchain.report.columns import Column
from toolchain.report.contents import read_report
from toolchain.report.terminal import Terminal
from toolchain.target import target_of

ROWS = 4
SECONDS = 1800.0


@dataclass(frozen=True)
class Measured:
    """One model on one core. `spread` is by how many instructions inferences on different inputs differ; the rest is
    in bytes."""

    instructions: int
    spread: int
    flash: int
    code: int
    constants: int
    ram: int
    arena: int
    lower_bound: int
    stack: int


def measure(model: Model, board_name: str, optimize: Optimize, inputs: int = ROWS) -> Measured:
    """Builds, runs on random inputs and counts. UserError and CheckFailed where that fails."""
    board = load_board(board_name)
    compiled = compile_model(model, target_of(board.core), settings=Settings(optimize))
    with tempfile.TemporaryDirectory(prefix="tinykiln-") as name:
        folder = Path(name)
        result = build_firmware(board, compiled, folder, FirmwareOptions(optimize=optimize.value))
        built = Built(board, folder, read_report(result.report))
        rows = random_rows(built.inputs, inputs)
        counted = profile(board, built.elf, built.prefix, len(compiled.dispatches), rows, SECONDS, built.input_places)
    if not counted.exact:
        raise SystemExit(f"this QEMU counts no instructions exactly: {counted.note}")
    return Measured(
        instructions=counted.total,
        spread=counted.spread,
        flash=result.sizes.flash.total,
        code=result.sizes.flash.code,
        constants=result.sizes.flash.constants,
        ram=result.sizes.ram.total,
        arena=compiled.arena_bytes,
        lower_bound=compiled.arena_lower_bound,
        stack=result.stack.bytes,
    )


def exceeded(name: str, core: str, measured: Measured, anchor: Anchor) -> list[str]:
    """What a measurement has too much of."""
    limits = {
        "instructions": (measured.instructions, CEILINGS.get((name, core), anchor.instructions)),
        "code": (measured.code, CODE_CEILINGS.get(core, anchor.code)),
        "arena": (measured.arena, anchor.arena),
    }
    return [f"{name} on {core}: {got:,} {what}, at most {most:,}" for what, (got, most) in limits.items() if got > most]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="*", choices=[*MODELS, []], help="ic, vww, kws, ad; all without")
    parser.add_argument("--core", choices=sorted(BOARDS), action="append", help="one core; may be repeated")
    parser.add_argument("--models", type=Path, default=FOLDER, help="folder of the MLPerf Tiny .tflite files")
    parser.add_argument("--optimize", choices=[o.value for o in Optimize], default=Optimize.BALANCED.value)
    parser.add_argument("--peers", action="store_true", help="measure installed peers too, on M4 (bench.peers)")
    arguments = parser.parse_args()
    terminal, rows, faults = Terminal(), [], []
    for name in arguments.model or MODELS:
        path = arguments.models / f"{MODELS[name]}.tflite"
        if not path.is_file():
            sys.exit(f"{path} is not there: name the folder of the MLPerf Tiny models with --models")
        for core in arguments.core or BOARDS:
            model, anchor = Model(path.name, path.read_bytes()), ANCHORS[name, core]
            measured = measure(model, BOARDS[core], Optimize(arguments.optimize))
            faults += exceeded(name, core, measured, anchor)
            ratio = f"{anchor.instructions / measured.instructions:.2f}x"
            row = (name, core, measured.instructions, anchor.instructions, ratio, measured.spread)
            rows.append(
                (*row, measured.code, anchor.code, measured.constants, measured.arena, anchor.arena, measured.stack)
            )
            terminal.stage(name, f"{core}: {measured.instructions:,} instructions")
        if arguments.peers:
            with tempfile.TemporaryDirectory(prefix="tinykiln-") as folder:
                for peer, figure in peers.measured(path, Path(folder)).items():
                    told = f"{figure:,} instructions" if isinstance(figure, int) else figure
                    terminal.line(f"{name}: {peer} on M4: {told}")
    sizes = ("code B", "TFLM", "constants B", "arena B", "TFLM", "stack B")
    numbers = ("instructions", "TFLM", "faster", "spread", *sizes)
    terminal.table((Column("model"), Column("core"), *(Column(name, number=True) for name in numbers)), rows)
    for fault in faults:
        terminal.line(f"above its ceiling: {fault}", "red")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
