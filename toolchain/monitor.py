# SPDX-License-Identifier: Apache-2.0
"""A raw terminal: keys to the port, bytes of the port to the screen and a log, and the firmware's fault lines
explained."""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from toolchain.flash.port import Port

QUIT = b"\x1d"
"""Ctrl-]"""
POLL_S = 0.05
_FAULT = re.compile(rb"e-\[(?:Fault|Stack overflow)[^\]\r\n]*\]")

Keys = Callable[[], bytes | None]
"""What was typed since the last call; None at the end of the input."""


Decoder = Callable[[str], str]
"""A fault line to lines of explanation; empty for another line."""


class Screen:
    """Shows what comes, writes it along, and adds a line after each fault."""

    def __init__(self, log: IO[bytes] | None, decoder: Decoder | None, out: IO[bytes] | None = None) -> None:
        self._log, self._decoder = log, decoder
        self._out = out or sys.stdout.buffer
        self._tail = b""

    def show(self, data: bytes) -> None:
        self._put(data)
        self._tail += data
        while self._decoder is not None and (match := _FAULT.search(self._tail)):
            told = self._decoder(match[0].decode("ascii", "replace")).replace("\n", "\r\n")
            self._put(f"\r\n{told}\r\n".encode())
            self._tail = self._tail[match.end() :]
        self._tail = self._tail[-200:]

    def _put(self, data: bytes) -> None:
        self._out.write(data)
        self._out.flush()
        if self._log is not None:
            self._log.write(data)
            self._log.flush()


def monitor_port(port: Port, keys: Keys, screen: Screen) -> None:
    """Until Ctrl-] is typed or the input ends; what still comes within a moment is shown. LinkLost where the port
    goes away."""
    while True:
        if data := port.read(POLL_S):
            screen.show(data)
        typed = keys()
        if typed is None or QUIT in typed:
            if typed:
                port.write(typed.partition(QUIT)[0])
            screen.show(port.drain(4 * POLL_S))
            return
        if typed:
            port.write(typed)


@contextmanager
def keyboard() -> Iterator[Keys]:
    """Keys one by one where standard input is a terminal, which is as it was afterwards; else what is piped in."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor) if os.isatty(descriptor) else None

    def keys() -> bytes | None:
        if not select.select([descriptor], [], [], 0)[0]:
            return b""
        return os.read(descriptor, 1024) or None

    try:
        if before is not None:
            tty.setraw(descriptor)
        yield keys
    finally:
        if before is not None:
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
