# SPDX-License-Identifier: Apache-2.0
"""A device at the other end of a pseudo terminal, in a thread, over a line that can be disturbed."""

from __future__ import annotations

import os
import random
import select
import threading
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

BITS_A_BYTE = 11
"""Start bit, data, parity, stop bit."""
BURST = 32
"""Bytes that arrive at once where they take their time."""


class HungUp(Exception):
    """The host is gone, or the test is over."""


@dataclass(frozen=True)
class Faults:
    """Shares of bytes, in both directions, from `after` bytes on. `cut`: after that many bytes nothing passes.
    `unplugged`: after that many the port itself is gone. `stall_s` is a pause before one answer in twenty. `baud`:
    bytes take their time."""

    seed: int = 1
    lost: float = 0.0
    flipped: float = 0.0
    stall_s: float = 0.0
    cut: int | None = None
    unplugged: int | None = None
    after: int = 0
    baud: int | None = None


class Line:
    """The device's end. `take` and `give` raise HungUp at the end."""

    def __init__(self, master: int, faults: Faults) -> None:
        self._master, self._faults, self.open = master, faults, True
        self._random = random.Random(faults.seed)
        self._inbox = bytearray()
        self._free_at = 0.0
        self.over = threading.Event()
        self.passed = 0
        """Bytes in both directions, before the faults."""

    def take(self, count: int, timeout_s: float | None = None) -> bytes:
        """`count` bytes; fewer only where `timeout_s` is given and passes without a byte."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while len(self._inbox) < count:
            if self.over.is_set():
                raise HungUp
            if select.select([self._master], [], [], 0.01)[0]:
                try:
                    data = os.read(self._master, 4096)
                except OSError as error:
                    if self.over.is_set():
                        raise HungUp from error
                    time.sleep(0.01)  # nobody has the other end open at the moment
                    continue
                self._free_at = max(self._free_at, time.monotonic())
                self._inbox += self._disturb(data)
                end = None if timeout_s is None else time.monotonic() + timeout_s
            elif end is not None and time.monotonic() > end:
                break
        found = bytes(self._inbox[:count])
        del self._inbox[:count]
        return found

    def give(self, data: bytes) -> None:
        if self._faults.stall_s and self._random.random() < 0.05:
            time.sleep(self._faults.stall_s)
        self._free_at = max(self._free_at, time.monotonic())
        at_once = BURST if self._faults.baud else max(1, len(data))
        for at in range(0, len(data), at_once):
            out = self._disturb(data[at : at + at_once])
            try:
                while out:
                    out = out[os.write(self._master, out) :]
            except OSError as error:
                raise HungUp from error

    def close(self) -> None:
        """Takes the port away."""
        if self.open:
            self.open = False
            os.close(self._master)

    def _disturb(self, data: bytes) -> bytes:
        faults = self._faults
        if faults.baud:
            self._free_at += BITS_A_BYTE * len(data) / faults.baud
            time.sleep(max(0.0, self._free_at - time.monotonic()))
        out = bytearray()
        for byte in data:
            self.passed += 1
            if self.passed == faults.unplugged:
                self.close()
                raise HungUp
            if faults.cut is not None and self.passed > faults.cut:
                continue
            if self.passed > faults.after:
                if self._random.random() < faults.lost:
                    continue
                if self._random.random() < faults.flipped:
                    byte ^= 1 << self._random.randrange(8)
            out.append(byte)
        return bytes(out)


class Device(Protocol):
    """What sits at the end of a line. `serve` runs until HungUp."""

    def serve(self, line: Line) -> None: ...


@dataclass(frozen=True)
class Plugged:
    """`name` is the port to open."""

    name: str
    line: Line


@contextmanager
def plugged(device: Device, faults: Faults | None = None) -> Iterator[Plugged]:
    """Serves a device on a new pseudo terminal. An exception in the device fails the test."""
    master, slave = os.openpty()
    tty.setraw(slave)
    line = Line(master, faults or Faults())
    failed: list[BaseException] = []

    def serve() -> None:
        try:
            device.serve(line)
        except HungUp:
            pass
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield Plugged(os.ttyname(slave), line)
    finally:
        line.over.set()
        thread.join(5)
        os.close(slave)
        line.close()
    assert not thread.is_alive()
    if failed:
        raise failed[0]
