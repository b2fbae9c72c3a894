# SPDX-License-Identifier: Apache-2.0
"""`monitor`: a raw terminal on the device's console, which names the places of faults."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from toolchain.elf.faults import decode_fault
from toolchain.flash.port import Line, open_port
from toolchain.monitor import Decoder, Screen, keyboard, monitor_port
from toolchain.report.contents import read_report
from toolchain.report.terminal import Terminal
from toolchain.request import BoardRequest


def decoder_of(elf: Path) -> Decoder:
    """Explains faults of an image by its symbols and the report beside it."""
    report = read_report(elf.with_name("report.json"))
    return lambda line: decode_fault(line, elf, report)


def monitor(request: BoardRequest) -> None:
    """Runs until Ctrl-] or the end of the input. With a model, faults are decoded by its build."""
    terminal, link = Terminal(request.quiet), request.link
    line = Line(request.board.console.baud)
    with ExitStack() as stack:
        port = stack.enter_context(open_port(link.port, line, **link.wiring.idle()))
        log = stack.enter_context(link.log.open("wb")) if link.log is not None else None
        decoder = decoder_of(request.elf) if request.elf is not None else None
        known = f", faults by {request.elf.parent.name}/{request.elf.name}" if request.elf is not None else ""
        terminal.stage("monitor", f"{port.name} at {line.baud} baud{known}; Ctrl-] quits")
        monitor_port(port, stack.enter_context(keyboard()), Screen(log, decoder))
