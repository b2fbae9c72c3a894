# SPDX-License-Identifier: Apache-2.0
"""`firmware`: the model file to checked images in build/<board>/<model>/, and the size table."""

from __future__ import annotations

import shutil
from pathlib import Path

from boards.loader import board_names, load_board
from compiler.compile import compile_model
from compiler.model import Model
from toolchain.files import write_text
from toolchain.firmware import build_firmware
from toolchain.options import FirmwareOptions
from toolchain.page import page
from toolchain.report import read_report
from toolchain.request import Request
from toolchain.target import target_of
from toolchain.terminal import Terminal

STAGES = {
    "read": "the model file",
    "passes": "fold constants, fuse padding and activations, remove dead channels",
    "reference": "self-test vectors, with NumPy",
    "schedule": "choose a kernel for each operator",
    "arena": "place every buffer",
    "code": "LLVM, one object a kernel",
}


def firmware(request: Request) -> None:
    """Builds aside and moves the products into place when all are there: a failure leaves nothing half-written, and
    no former build that would pass for the result."""
    terminal = Terminal(request.quiet)
    terminal.stage("model", f"{request.model.name} for {request.board.name}, {request.board.core.name}")
    shutil.rmtree(request.folder, ignore_errors=True)
    model = Model(request.model.name, request.model.read_bytes())
    compiled = compile_model(
        model, target_of(request.board.core), lambda stage: terminal.stage(stage, STAGES.get(stage, ""))
    )
    terminal.stage("link", "start-up, console and linker script; the stack from the call graph; checks on the image")
    alternatives = tuple(load_board(name) for name in board_names())
    options = FirmwareOptions(request.console, alternatives=alternatives)
    part = request.folder.with_name(f".{request.folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        build_firmware(request.board, compiled, part, options)
        write_text(part / "report.html", page(read_report(part / "report.json")))
        _publish(part, request)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    report = read_report(request.folder / "report.json")
    terminal.sizes(report)
    for note in report["notes"]:
        terminal.line(f"note: {note}", "yellow")


def _publish(part: Path, request: Request) -> None:
    """Leaves the products alone in the folder, and renames it."""
    whole = part.with_suffix(".whole")
    shutil.rmtree(whole, ignore_errors=True)
    try:
        for product in request.products:
            (whole / product).parent.mkdir(parents=True, exist_ok=True)
            (part / product).rename(whole / product)
        whole.rename(request.folder)
    finally:
        shutil.rmtree(whole, ignore_errors=True)
