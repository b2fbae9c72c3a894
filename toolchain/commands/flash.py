# SPDX-License-Identifier: Apache-2.0
"""`flash`: the built firmware into one or several devices; verified, started, and asked for its name."""

from __future__ import annotations

from dataclasses import dataclass

from boards.board import Board
from boards.flashing import Flashing
from toolchain.device import greet
from toolchain.elf.file import read_elf
from toolchain.flash import session
from toolchain.flash.errors import FlashError
from toolchain.flash.fleet import Result, conclude, on_each
from toolchain.flash.plan import Plan, image_of, plan_of
from toolchain.flash.port import Line, open_port
from toolchain.flash.programs import PROGRAMS
from toolchain.flash.progress import Watcher, watched
from toolchain.report.columns import Column
from toolchain.report.terminal import Terminal
from toolchain.request import Request, flashing_of
from toolchain.serial_link import Link

GREETINGS = 3


@dataclass(frozen=True)
class Flashed:
    """`answer` is what the console said, or why nobody asked."""

    outcome: session.Outcome
    answer: str


def flash(request: Request) -> None:
    """Writes build/<board>/<model>/firmware.elf. Raises FlashError, or for several devices one that lists all."""
    terminal, board, link = Terminal(request.quiet), request.board, request.link
    flashing = flashing_of(board, link)
    if flashing.protocol in PROGRAMS:
        PROGRAMS[flashing.protocol](terminal, request)
        return
    elf = request.folder / "firmware.elf"
    plan = plan_of(image_of(read_elf(elf.read_bytes()), board, flashing), flashing)
    ports = link.ports
    terminal.stage("flash", f"{len(plan.image.data):,} bytes, {len(plan.sectors)} sectors, by {flashing.protocol}")
    with watched(terminal, ports) as watcher:
        results = on_each(ports, lambda port: _one(port, board, plan, settings_of(flashing, link), request, watcher))
    _print(terminal, results, link.resume)
    conclude(results)


def settings_of(flashing: Flashing, link: Link) -> session.Settings:
    return session.Settings(flashing, link.baud or flashing.baud, link.wiring, link.unprotect, link.resume)


def _one(
    name: str, board: Board, plan: Plan, settings: session.Settings, request: Request, watcher: Watcher
) -> Flashed:
    def report(stage: str, done: int, total: int) -> None:
        watcher.report(name, stage, done, total)

    with open_port(name, Line(settings.baud), **settings.wiring.idle()) as port:
        outcome = session.flash(port, plan, settings, report)
        if request.console == "none":
            return Flashed(outcome, "no console")
        if not outcome.started:
            return Flashed(outcome, "reset the board to start it")
        report("console", 0, 0)
        try:
            port.set_line(Line(board.console.baud))
            return Flashed(outcome, f"{greet(port, GREETINGS).name()} answers")
        except FlashError:
            # Right where the console is on other pins than the boot loader, or that was on a USB port now gone.
            return Flashed(outcome, "no answer on this port")


def _print(terminal: Terminal, results: list[Result[Flashed]], resume: bool) -> None:
    columns = (
        *(Column(name) for name in ("port", "result")),
        *(Column(name, number=True) for name in ("bytes", "seconds", "KB/s")),
        *(Column(name) for name in ("verified", "console")),
    )
    rows: list[tuple[object, ...]] = []
    for result in results:
        if result.outcome is None:
            rows.append((result.port, f"failed: {result.error.what if result.error else ''}", "", "", "", "", ""))
            continue
        done = result.outcome.outcome
        again = f", {done.repairs} repairs" if done.repairs else ""
        if resume:
            again += ", written anew: nothing to compare with" if done.kept is None else f", {done.kept} sectors kept"
        rate = f"{done.rate / 1024:.1f}"
        proof = done.proof.value + again
        rows.append((result.port, "good", done.written, f"{done.seconds:.1f}", rate, proof, result.outcome.answer))
    terminal.table(columns, rows)
