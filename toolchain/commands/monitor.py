# SPDX-License-Identifier: Apache-2.0
"""`monitor`: a raw terminal on the device's console, which names the places of faults."""

from __future__ import annotations

from contextlib import ExitStack

from toolchain.flash.port import Line, open_port
from toolchain.monitor import Decoder, Screen, keyboard, monitor_port
from toolchain.request import BoardRequest
from toolchain.terminal import Terminal


def monitor(request: BoardRequest) -> None:
    """Runs until Ctrl-] or the end of the input. With a model, faults are decoded by its build."""
    terminal, link = Terminal(request.quiet), request.link
    line = Line(request.board.console.baud)
    with ExitStack() as stack:
        port = stack.enter_context(open_port(link.port, line, **link.wiring.idle()))
        log = stack.enter_context(link.log.open("wb")) if link.log is not None else None
        decoder = Decoder(request.elf.read_bytes()) if request.elf is not None else None
        known = f", faults by {request.elf.parent.name}/{request.elf.name}" if request.elf is not None else ""
        terminal.stage("monitor", f"{port.name} at {line.baud} baud{known}; Ctrl-] quits")
        monitor_port(port, stack.enter_context(keyboard()), Screen(log, decoder))
