# SPDX-License-Identifier: Apache-2.0
"""A raw terminal: keys to the port, bytes of the port to the screen and a log, and the addresses in the firmware's
fault lines to names."""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import tty
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from toolchain.elf import read_elf
from toolchain.flash.port import Port

QUIT = b"\x1d"
"""Ctrl-]"""
POLL_S = 0.05
_FAULT = re.compile(rb"e-\[Fault [^\]\r\n]*\]")
_PLACE = re.compile(rb"\b(pc|lr|ra) ([0-9A-F]{8})")

Keys = Callable[[], bytes | None]
"""What was typed since the last call; None at the end of the input."""


class Decoder:
    """Addresses to functions of a linked ELF file."""

    def __init__(self, elf: bytes) -> None:
        found = [
            s for s in read_elf(elf).symbols if s.kind in ("STT_FUNC", "STT_NOTYPE") and not s.name.startswith("$")
        ]
        self._symbols = sorted(found, key=lambda s: (s.address, s.size))
        self._addresses = [s.address for s in self._symbols]

    def place(self, address: int) -> str:
        """`function+0x12`; the bare address where no function is known to hold it."""
        address &= ~1
        at = bisect_right(self._addresses, address) - 1
        if at < 0:
            return f"{address:#010x}"
        symbol = self._symbols[at]
        if symbol.size and address >= symbol.address + symbol.size:
            return f"{address:#010x}, behind {symbol.name}"
        return f"{symbol.name}+{address - symbol.address:#x}"

    def explain(self, fault: bytes) -> str:
        """The places that a fault line names."""
        places = [(match[1].decode(), int(match[2], 16)) for match in _PLACE.finditer(fault)]
        return "; ".join(f"{name} in {self.place(address)}" for name, address in places)


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
            self._put(f"\r\n  fault: {self._decoder.explain(match[0])}\r\n".encode())
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
