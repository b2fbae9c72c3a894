# SPDX-License-Identifier: Apache-2.0
"""Run an ELF file under QEMU: its UART as a stream of bytes, always a time limit, never a process left behind."""

from __future__ import annotations

import logging
import resource
import select
import shlex
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from boards.board import Emulator
from qemu.command import Channels, Options, emulator_command
from qemu.debugger import Debugger, DebuggerError
from qemu.monitor import Monitor, MonitorError

_log = logging.getLogger("kiln.commands")

FIRST_PAUSE_S = 0.002
LONGEST_PAUSE_S = 0.1


class EmulatorError(Exception):
    """QEMU ended although the firmware should be running; says what QEMU said."""


class GuestLockup(EmulatorError):
    """The guest faulted while it handled a fault."""


class TimeLimit(EmulatorError):
    """The time limit passed and QEMU was killed."""


class Emulation:
    """A running guest, to be used as a context manager. It starts paused: paint memory, then `resume`.

    `limit_s` is wall-clock time, after which QEMU is killed whatever it does. As the transport of a console it has
    `write` and `read`.
    """

    def __init__(self, emulator: Emulator, elf: Path, limit_s: float, options: Options | None = None) -> None:
        self.emulator, self.elf, self.limit_s = emulator, elf, limit_s
        self._options = options or Options()
        self._expired = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._sockets: list[socket.socket] = []
        self._timer: threading.Timer | None = None
        self._inbox = b""

    def __enter__(self) -> Emulation:
        pairs = [socket.socketpair() for _ in range(3)]
        self._sockets = [ours for ours, _ in pairs]
        theirs = [their for _, their in pairs]
        try:
            channels = Channels(*(their.fileno() for their in theirs))
            command = emulator_command(self.emulator, self.elf, channels, self._options)
            _log.debug("%s", shlex.join(command))
            self._errors = tempfile.TemporaryFile()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=subprocess.STDOUT,
                pass_fds=[their.fileno() for their in theirs],
            )
            self._limit(self._process)
            for their in theirs:
                their.close()
            self._debugger = Debugger(self._sockets[2])
            self._monitor = Monitor(self._sockets[1], self._sockets[0], self._drain)
        except BaseException as error:
            for their in theirs:
                their.close()
            if isinstance(error, (MonitorError, OSError)):
                failure = self._failure()
                self.close()
                raise failure from error
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def resume(self) -> None:
        """Let the guest run (on)."""
        self._execute("cont")

    def stop(self) -> None:
        """Halt the guest between two instructions."""
        self._execute("stop")

    @property
    def stopped(self) -> bool:
        """Whether the guest stands still."""
        return not self._execute("query-status")["running"]

    @contextmanager
    def debugger(self) -> Iterator[Debugger]:
        """The GDB stub of a guest that is stopped or has not started."""
        try:
            yield self._debugger
        except DebuggerError as error:
            raise EmulatorError(f"{self.elf} under QEMU's {self.emulator.machine}: {error}") from error

    def write_memory(self, address: int, data: bytes) -> None:
        """Write the memory of a guest that is stopped or has not started."""
        with self.debugger() as debugger:
            debugger.write_memory(address, data)

    def read_memory(self, address: int, size: int) -> bytes:
        """Stop the guest and read `size` bytes at `address`."""
        self.stop()
        with self.debugger() as debugger:
            return debugger.read_memory(address, size)

    def _execute(self, command: str) -> Any:
        try:
            return self._monitor.execute(command)
        except MonitorError as error:
            raise self._failure() from error

    def write(self, data: bytes) -> None:
        """Send bytes to the board's UART; what the board sends meanwhile is kept for `read`."""
        pending = memoryview(data)
        while pending:
            readable, writable = self._wait(LONGEST_PAUSE_S, sending=True)
            if readable:
                self._drain()
            if writable:
                try:
                    pending = pending[self._sockets[0].send(pending, socket.MSG_DONTWAIT) :]
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise self._failure() from error

    def read(self, timeout_s: float) -> bytes:
        """Bytes that the board's UART sent, at least one; empty after `timeout_s`. EmulatorError when QEMU ended."""
        deadline, pause = time.monotonic() + timeout_s, FIRST_PAUSE_S
        while not self._inbox:
            if self._wait(max(0.0, min(pause, deadline - time.monotonic())), sending=False)[0]:
                self._drain()
            elif time.monotonic() >= deadline:
                break
            pause = min(2 * pause, LONGEST_PAUSE_S)
        data, self._inbox = self._inbox, b""
        return data

    def _wait(self, timeout_s: float, sending: bool) -> tuple[bool, bool]:
        """Whether the console can be read and written; wakes QEMU where neither came in time.

        QEMU looks again whether the UART takes bytes only when its main loop wakes, and a guest that enables its
        receiver does not wake it.
        """
        stream = self._sockets[0]
        readable, writable, _ = select.select([stream], [stream] if sending else [], [], timeout_s)
        if not readable and not writable:
            self._execute("query-status")
        return bool(readable), bool(writable)

    def _drain(self) -> None:
        """Take what the console's socket holds. EmulatorError when it was closed."""
        try:
            data = self._sockets[0].recv(65536)
        except OSError as error:
            raise self._failure() from error
        if not data:
            raise self._failure()
        self._inbox += data

    def close(self) -> None:
        """Kill QEMU and wait for it."""
        if self._timer is not None:
            self._timer.cancel()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        for stream in self._sockets:
            stream.close()
        self._sockets = []
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def _limit(self, process: subprocess.Popen[bytes]) -> None:
        self._timer = threading.Timer(self.limit_s, self._expire, [process])
        self._timer.daemon = True
        self._timer.start()
        # Should this process be killed, the kernel still ends QEMU: a polling guest uses up its processor time.
        seconds = int(self.limit_s) * 2 + 10
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (seconds, seconds))

    def _expire(self, process: subprocess.Popen[bytes]) -> None:
        self._expired.set()
        process.kill()

    def _failure(self) -> EmulatorError:
        """What ended QEMU."""
        machine = self.emulator.machine
        said, status = "", None
        if self._process is not None:
            try:
                status = self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                return EmulatorError(f"QEMU's {machine} stopped talking but still runs {self.elf}")
        if self._errors is not None:
            self._errors.seek(0)
            said = self._errors.read().decode("utf-8", "replace").strip()
        if self._expired.is_set():
            return TimeLimit(f"{self.elf} was still running under QEMU's {machine} after {self.limit_s:g} s")
        first = said.splitlines()[0] if said else f"exit status {status}"
        if "Lockup" in said:
            return GuestLockup(f"{self.elf} locked up under QEMU's {machine}: {first}\n{said}")
        return EmulatorError(f"QEMU's {machine} ended while running {self.elf}: {first}\n{said}")
