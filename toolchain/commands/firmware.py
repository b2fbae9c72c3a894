# SPDX-License-Identifier: Apache-2.0
"""`firmware`: the model file to checked images in build/<board>/<model>/, and the size table."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from boards.board import MemoryKind
from boards.loader import board_names, load_board
from compiler.artifact import CompiledModel
from compiler.compile import compile_model
from compiler.errors import UserError
from compiler.model import Model
from compiler.settings import Settings
from toolchain.bundle import ALIGNMENT
from toolchain.files import write_text
from toolchain.firmware import build_firmware
from toolchain.fit import DoesNotFit
from toolchain.options import FirmwareOptions
from toolchain.report.contents import read_report
from toolchain.report.page import page
from toolchain.report.terminal import Terminal
from toolchain.request import HostRequest, Request
from toolchain.target import target_of

STAGES = {
    "read": "the model file",
    "passes": "fold constants, fuse padding and activations, remove dead channels",
    "reference": "self-test vectors, with NumPy",
    "schedule": "choose kernels; join operators row by row where that saves memory",
    "arena": "place every buffer",
    "code": "LLVM, one object a kernel",
}


def firmware(request: Request) -> None:
    """Prints the stages and the size table."""
    terminal = Terminal(request.quiet)
    with publish(request) as part:
        alternatives = tuple(load_board(name) for name in board_names())
        options = replace(request.options, alternatives=alternatives)
        _build(request, part, options, terminal)
        write_text(part / "report.html", page(read_report(part / "report.json")))
    report = read_report(request.folder / "report.json")
    terminal.sizes(report)
    for note in report["notes"]:
        terminal.line(f"note: {note}", "yellow")


def _build(request: Request, folder: Path, options: FirmwareOptions, terminal: Terminal) -> None:
    """Compiles and links. Where the arena is what does not fit, again: over several banks, then with smaller arenas as
    long as they become smaller."""
    settings, arena = request.settings, None
    while True:
        compiled, *more = [_compiled(request, path, settings, terminal) for path in request.models]
        for model in (compiled, *more):
            _check_arena(request, model)
        terminal.stage(
            "link", "start-up, console and linker script; the stack from the call graph; checks on the image"
        )
        try:
            build_firmware(request.board, compiled, folder, options, tuple(more))
            return
        except DoesNotFit as fault:
            banks = _banks(request, settings.banks, compiled, fault)
            if banks is not None:
                settings = replace(settings, banks=banks)
                terminal.stage("memory", f"{fault.ram_bytes:,} bytes too many: an arena over {len(banks) + 1} banks")
                continue
            largest = max(model.arena_bytes for model in (compiled, *more))
            if not fault.ram_bytes or (arena is not None and largest >= arena):
                raise
            arena = largest
            settings = replace(settings, arena_bytes=max(arena - fault.ram_bytes, 0) // ALIGNMENT * ALIGNMENT)
            terminal.stage("memory", f"{fault.ram_bytes:,} bytes too many: a smaller arena for more instructions")


def _check_arena(request: Request, model: CompiledModel) -> None:
    if request.arena_bytes is not None and model.arena_bytes > request.arena_bytes:
        raise UserError(
            f"the arena of {model.name} is larger than arena_bytes=",
            got=f"{model.arena_bytes} bytes, the least that was found",
            allowed=f"{request.arena_bytes} bytes",
            hint="allow so many bytes, or take a smaller model",
        )


def _banks(
    request: Request, tried: tuple[int, ...], compiled: CompiledModel, fault: DoesNotFit
) -> tuple[int, ...] | None:
    """How much of the arena each of the board's banks shall hold, but for the last, after `tried` did not fit; None
    where several banks cannot help, or the user has named one."""
    banks = {m.name: m for m in request.board.memories if m.kind is MemoryKind.RAM}
    order = [banks[name] for name in request.board.arena_banks]
    alone = len(order) == 1 or request.arena or request.more
    if alone or not fault.ram_bytes or compiled.arena_bytes > sum(bank.size for bank in order):
        return None
    if not tried:
        return tuple(bank.size for bank in order[:-1])
    over = {overflow.region: -(-overflow.bytes // ALIGNMENT) * ALIGNMENT for overflow in fault.overflows}
    fewer = tuple(size - over.get(bank.name, 0) for bank, size in zip(order, tried, strict=False))
    return fewer if fewer != tried and min(fewer) >= 0 else None


def _compiled(request: Request, path: Path, settings: Settings, terminal: Terminal) -> CompiledModel:
    terminal.stage("model", f"{path.name} for {request.board.name}, {request.board.core.name}")
    return compile_model(
        Model(path.name, path.read_bytes()),
        target_of(request.board.core),
        lambda stage: terminal.stage(stage, STAGES.get(stage, "")),
        settings,
    )


@contextmanager
def publish(request: Request | HostRequest) -> Iterator[Path]:
    """A folder to build in, whose products are moved into place when all are there: a failure leaves nothing
    half-written, and no former build that would pass for the result."""
    shutil.rmtree(request.folder, ignore_errors=True)
    part = request.folder.with_name(f".{request.folder.name}.part")
    whole = part.with_suffix(".whole")
    for folder in (part, whole):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        yield part
        for product in request.products:
            (whole / product).parent.mkdir(parents=True, exist_ok=True)
            (part / product).rename(whole / product)
        whole.rename(request.folder)
    finally:
        for folder in (part, whole):
            shutil.rmtree(folder, ignore_errors=True)
