# SPDX-License-Identifier: Apache-2.0
"""`erase`: the whole flash of one or several devices."""

from __future__ import annotations

from compiler.errors import UserError
from toolchain.commands.flash import settings_of
from toolchain.flash import session
from toolchain.flash.fleet import conclude, on_each
from toolchain.flash.port import Line, open_port
from toolchain.flash.programs import PROGRAMS
from toolchain.flash.progress import watched
from toolchain.report.terminal import Terminal
from toolchain.request import BoardRequest, flashing_of


def erase(request: BoardRequest) -> None:
    """Erases every sector. Raises FlashError, or for several devices one that lists all."""
    terminal, link = Terminal(request.quiet), request.link
    flashing = flashing_of(request.board, link)
    if flashing.protocol in PROGRAMS:
        raise UserError("there is no erasing by this protocol", where=request.board.name, got=flashing.protocol)
    settings = settings_of(flashing, link)
    ports = link.ports
    with watched(terminal, ports) as watcher:

        def one(name: str) -> str:
            with open_port(name, Line(settings.baud), **settings.wiring.idle()) as port:
                return session.erase(port, settings, lambda *seen: watcher.report(name, *seen)).loader

        results = on_each(ports, one)
    for result in results:
        if result.outcome is not None:
            terminal.line(f"{result.port}: erased, by {result.outcome}")
    conclude(results)
