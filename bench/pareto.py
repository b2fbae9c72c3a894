# SPDX-License-Identifier: Apache-2.0
"""docs/PERFORMANCE.md: what flash, RAM and instructions the settings trade: `python -m bench.pareto [MODEL ...]`.

Measures the named MLPerf Tiny models (all: `all`) on two cores at each setting into docs/performance.json, and writes
the document from that file. The models are looked for in ../shared/zoo/models, or in the folder that --models names.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from bench.anchors import ANCHORS, BOARDS, FOLDER, MODELS
from bench.models import measure
from compiler.model import Model
from compiler.settings import Optimize
from toolchain.files import write_text
from toolchain.measure.cycles import timings
from toolchain.request import ROOT

RESULTS, TEXT = ROOT / "docs" / "performance.json", ROOT / "docs" / "PERFORMANCE.md"
CORES = ("M4", "RV32IMAC")
HEAD = """# Performance

Written by `python -m bench.pareto`. Whole images of the MLPerf Tiny models with console, start-up and stack; bytes of
flash and RAM, executed instructions of one inference, counted exactly under QEMU. `TFLM` is TFLite Micro with CMSIS-NN
(its plain C on RV32IMAC), code and model file, arena and stack not included in flash; `spread` is by how many
instructions inferences on different random inputs differ. `python -m bench.models` measures four cores, `bench.layers`
single layers; [performance-log.md](performance-log.md) tells what paid.

## Flash, RAM and instructions

"""
CYCLES = """
## Estimates of cycles

`profile` adds an estimate of cycles on cores whose instruction timings are published (boards/timings): each executed
instruction takes what the table says, taken branches more. It is an estimate: wait states of flash and contention on
the bus are left out, and where the source gives a range, the table says which value was taken. For other cores there
is no estimate, since no complete table of their timings is at hand: no published timing is used for Cortex-M7, M33 and
M55, nor for the RISC-V cores. On those `console=profile` measures a device.

"""


def render(results: dict[str, Any]) -> str:
    """The whole document."""
    lines = ["| model | core | setting | flash | RAM | arena | instructions | TFLM | spread |\n"]
    lines.append("| --- | --- | --- |" + " ---: |" * 6 + "\n")
    for name in MODELS:
        for core in CORES:
            for setting, m in results.get(f"{name} {core}", {}).items():
                figures = (m["flash"], m["ram"], m["arena"], m["instructions"], ANCHORS[name, core].instructions)
                cells = " | ".join(f"{figure:,}" for figure in (*figures, m["spread"]))
                lines.append(f"| {name} | {core} | `{setting}` | {cells} |\n")
    sources = [f"- {', '.join(t.cores)}: {t.source}. {t.note}\n" for t in timings()]
    return "".join([HEAD, *lines, CYCLES, *sources])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.pareto", description=__doc__)
    parser.add_argument("model", nargs="*", choices=[*MODELS, "all", []], help="measures it again")
    parser.add_argument("--models", type=Path, default=FOLDER, help="folder of the MLPerf Tiny .tflite files")
    arguments = parser.parse_args()
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in MODELS if "all" in arguments.model else arguments.model:
        path = arguments.models / f"{MODELS[name]}.tflite"
        for core in CORES:
            found = {}
            for setting in (Optimize.SPEED, Optimize.BALANCED, Optimize.SIZE):
                m = measure(Model(path.name, path.read_bytes()), BOARDS[core], setting)
                sizes = {"flash": m.flash, "ram": m.ram, "arena": m.arena}
                found[setting.value] = {**sizes, "instructions": m.instructions, "spread": m.spread}
            results[f"{name} {core}"] = found
            write_text(RESULTS, json.dumps(results, indent=1) + "\n")
    write_text(TEXT, render(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
