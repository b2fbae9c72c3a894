# SPDX-License-Identifier: Apache-2.0
"""A serial port: a tty, a pty, or a URL of pyserial (socket://, rfc2217://), with bounded reads and plain errors."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import serial

from toolchain.flash.errors import LinkLost, PortError, TooLong

try:
    from termios import error as TerminalError
except ImportError:  # not on Windows
    TerminalError = OSError  # type: ignore[misc,assignment]

_WITHOUT_LINES = (errno.EINVAL, errno.ENOTTY)
"""What a port without modem lines says when they are set (a pty: ENOTTY)."""
POLL_S = 0.01
"""A read's own timeout, the same for all: to change it makes RFC 2217 agree on all settings anew."""
_PTY_MAJORS = range(136, 144)
"""Unix98 pseudo terminals (the kernel's devices.txt)."""


@dataclass(frozen=True)
class Line:
    """Bits a second, and parity: 'N' or 'E'. Always 8 data bits and one stop bit."""

    baud: int = 115200
    parity: str = "N"


class Port:
    """An open port. `write` and `read` make it the transport of a console, too.

    After `deadline` (time.monotonic()) every read raises TooLong: no device can hold a session for ever.
    """

    def __init__(self, name: str, device: Any) -> None:
        self.name, self._device = name, device
        self.deadline: float | None = None
        self.has_lines = True

    def write(self, data: bytes) -> None:
        try:
            self._device.write(data)
            self._device.flush()
        except (OSError, TerminalError) as error:
            self._lost(error)

    def read(self, timeout_s: float) -> bytes:
        """At least one byte, or none after `timeout_s`."""
        first = self._take(1, timeout_s)
        waiting = self._waiting() if first else 0
        return first + self._take(waiting, 0.0) if waiting else first

    def take(self, count: int, timeout_s: float) -> bytes:
        """`count` bytes, or as many as came before no byte came for `timeout_s`."""
        data = bytearray()
        while len(data) < count:
            part = self._take(max(1, min(count - len(data), self._waiting())), timeout_s)
            if not part:
                break
            data += part
        return bytes(data)

    def drain(self, quiet_s: float = 0.0, limit_s: float = 0.5) -> bytes:
        """Everything that came, until nothing comes for `quiet_s`, or for `limit_s` in all."""
        data, end = bytearray(), time.monotonic() + limit_s
        while (part := self._take(max(1, self._waiting()), quiet_s)) and time.monotonic() < end:
            data += part
        return bytes(data)

    def set_line(self, line: Line) -> None:
        """Changes rate and parity. A pty has no parity; a real port that refuses it is an error."""
        try:
            self._device.baudrate = line.baud
            self._device.parity = line.parity
        except (OSError, TerminalError, ValueError) as error:
            if line.parity == "N" or not is_pty(self.name):
                raise _cannot_set(self.name, line, error) from error
            self._device.parity = "N"

    def set_modem(self, dtr: bool | None = None, rts: bool | None = None) -> None:
        """Asserts or releases DTR and RTS (None: as they are). `has_lines` becomes False on ports without them."""
        try:
            if dtr is not None:
                self._device.dtr = dtr
            if rts is not None:
                self._device.rts = rts
        except (OSError, TerminalError) as error:
            if _number(error) not in _WITHOUT_LINES:
                self._lost(error)
            self.has_lines = False

    def close(self) -> None:
        self._device.close()

    def _waiting(self) -> int:
        try:
            return int(self._device.in_waiting)
        except (OSError, TerminalError) as error:
            self._lost(error)

    def _take(self, count: int, timeout_s: float) -> bytes:
        """Up to `count` bytes, at least one of which is asked for, once there are any; none after `timeout_s`."""
        end = time.monotonic() + timeout_s
        while self._waiting() or time.monotonic() < end:
            if self.deadline is not None and time.monotonic() > self.deadline:
                raise TooLong(
                    "the device took longer than any flashing does",
                    where=self.name,
                    hint="the line is too disturbed or the boot loader hangs: reset the board and flash again",
                )
            try:
                data = bytes(self._device.read(count))
            except (OSError, TerminalError) as error:
                self._lost(error)
            if data:
                return data
        return b""

    def _lost(self, error: BaseException) -> NoReturn:
        raise LinkLost(
            "the link was lost", where=self.name, got=str(error), hint="check cable and power, then run this again"
        ) from error


@contextmanager
def open_port(name: str, line: Line | None = None, dtr: bool | None = None, rts: bool | None = None) -> Iterator[Port]:
    """Opens a port for us alone, with these states of the modem lines from the start; closes it in the end.

    Raises PortError where it is absent, busy, not permitted, or no serial port.
    """
    line = line or Line()
    try:
        device = serial.serial_for_url(name, do_not_open=True)
        device.baudrate = line.baud
        device.parity = "N" if is_pty(name) else line.parity
        device.timeout = POLL_S
        if not name.startswith("rfc2217://"):  # that has a limit of its own, and refuses another
            device.write_timeout = 20.0
        if "://" not in name:
            device.exclusive = True
        if dtr is not None:
            device.dtr = dtr
        if rts is not None:
            device.rts = rts
        device.open()
    except (OSError, TerminalError, ValueError, NotImplementedError) as error:
        raise _cannot_open(name, error) from error
    port = Port(name, device)
    try:
        yield port
    finally:
        port.close()


def is_pty(name: str) -> bool:
    """Whether a port is a pseudo terminal: those know neither parity nor modem lines."""
    try:
        return os.major(os.stat(name).st_rdev) in _PTY_MAJORS
    except OSError:
        return False


def _number(error: BaseException) -> int | None:
    number = getattr(error, "errno", None)
    return number if number is not None else next((a for a in error.args if isinstance(a, int)), None)


def _cannot_set(name: str, line: Line, error: BaseException) -> PortError:
    parity = "even parity" if line.parity == "E" else "no parity"
    return PortError(f"the port does not take {line.baud} baud with {parity}", where=name, got=str(error))


def _cannot_open(name: str, error: BaseException) -> PortError:
    number, hint = _number(error), "`python -m serial.tools.list_ports` lists the serial ports"
    if number in (errno.EAGAIN, errno.EBUSY):
        what, hint = "the port is busy", "close the terminal or other program that has it open"
    elif number == errno.EACCES:
        what, hint = "this user may not open the port", "sudo usermod -a -G dialout $USER, then log in again"
    elif number in (errno.ENOENT, errno.ENODEV, errno.ENXIO):
        what = "the port is not there"
    else:
        what = "the port cannot be opened"
    return PortError(what, where=f"port={name}", got=str(error), hint=hint)
