# SPDX-License-Identifier: Apache-2.0
"""A program at the other end of a line."""

from __future__ import annotations

import select
import socket
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.flash.line import HungUp, Line


@dataclass
class ProgramDevice:
    """Runs `command` in `folder` with the line as its input and output, by a socket: on a pseudo terminal, which
    never waits for output to be sent, a program that flushes the line as it ends throws away its last answer.
    `code` is its exit code."""

    command: tuple[str, ...]
    folder: Path
    code: int | None = None

    def serve(self, line: Line) -> None:
        ours, its = socket.socketpair()
        with ours, its:
            end = its.fileno()
            process = subprocess.Popen(self.command, stdin=end, stdout=end, stderr=subprocess.DEVNULL, cwd=self.folder)
            try:
                while True:
                    if data := line.take(4096, 0.0):
                        ours.sendall(data)
                    if select.select([ours], [], [], 0)[0]:
                        line.give(ours.recv(4096))
            except HungUp:
                with suppress(subprocess.TimeoutExpired):
                    self.code = process.wait(5)
                raise
            finally:
                process.kill()
                process.wait()
