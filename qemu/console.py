# SPDX-License-Identifier: Apache-2.0
"""Client of the firmware's serial console, on an emulator's UART and a device's alike.

The command set is that of the MLPerf Tiny benchmark's runner (commands end with `%`, each answer with a line that holds
`m-ready`) and beyond it `out%` (raw output bytes), `reset%`, `test%` (the stored self-test) and `stack%`;
in firmware built for it `cycles%` too. The compact console has `name`, `profile`, `db`, `infer`, `out`, `reset`, `test`
and `stack`, and says less: `infer` tells neither time nor results.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

READY = "m-ready"
FAULTS = ("e-[Fault", "e-[Stack overflow")
"""After such a line the firmware stands still and no `m-ready` comes."""

LOAD_BYTES = 36
"""Input bytes in a `db` command: at most 80 characters are read, `db ` and `%` included."""


class Transport(Protocol):
    """A stream of bytes to the board. `read` returns at least one byte, or none after `timeout_s`."""

    def write(self, data: bytes) -> None: ...

    def read(self, timeout_s: float) -> bytes: ...


class ConsoleError(Exception):
    """The dialogue with the firmware failed."""


class DeviceError(ConsoleError):
    """The firmware answered with an error, e-[message]."""


class SilentDevice(ConsoleError):
    """No line came in time."""


@dataclass(frozen=True)
class Timeouts:
    """Seconds that a single line may take: after power-on, usually, and while the model runs."""

    boot_s: float = 10.0
    line_s: float = 5.0
    infer_s: float = 30.0


@dataclass(frozen=True)
class Timing:
    """What `infer` reports: the device's clock before and after `count` inferences, in microseconds."""

    count: int
    microseconds: int
    results: tuple[float, ...]


@dataclass(frozen=True)
class CycleCount:
    """Core clocks of each dispatch of one inference, in order, and the counter that they are from."""

    counter: str
    dispatches: tuple[int, ...]


@dataclass(frozen=True)
class SelfTest:
    """`vectors` is how many stored vectors agreed; `failure` the firmware's words on the first that did not."""

    vectors: int
    failure: str | None


class Console:
    """A dialogue. Up to `window` commands are sent ahead of their answers: more than one only where the transport
    holds back what the board has not taken yet, as an emulator does and a plain UART does not."""

    def __init__(self, transport: Transport, window: int = 1, timeouts: Timeouts | None = None) -> None:
        self._transport = transport
        self._window = window
        self.timeouts = timeouts or Timeouts()
        self._received = bytearray()
        self._waiting: deque[tuple[str, float]] = deque()
        self.log: deque[str] = deque(maxlen=40)
        """The last lines that came, for messages."""

    def wait_ready(self) -> list[str]:
        """The boot banner."""
        return self._answer("boot", self.timeouts.boot_s)

    def command(self, text: str, timeout_s: float | None = None) -> list[str]:
        """Send a command and return the lines of its answer without `m-ready`. DeviceError, SilentDevice."""
        self._drain()
        self._send(text, timeout_s)
        return self._next()

    def name(self) -> str:
        return self._field(self.command("name"), "m-name-dut")

    def model(self) -> str:
        return self._field(self.command("profile"), "m-model")

    def load(self, data: bytes) -> None:
        """Load the input buffer: the model's inputs, one after another."""
        self._pipeline(self._load_commands(data))

    def infer(self, count: int = 1, warmup: int = 0) -> Timing:
        """Run the model `warmup` times and then `count` times. ConsoleError from the compact console, which tells no
        time."""
        lines = self.command(f"infer {count} {warmup}", self.timeouts.infer_s * max(1, count + warmup))
        laps = [int(match[1]) for line in lines if (match := re.fullmatch(r"m-lap-us-(\d+)", line))]
        if len(laps) < 2:
            raise ConsoleError(f"infer did not report its time, as firmware built with console=uart does: {lines}")
        results = [line for line in lines if line.startswith("m-results-[")]
        values = self._field(results, "m-results").strip(",").split(",") if results else []
        return Timing(count, (laps[-1] - laps[-2]) & 0xFFFFFFFF, tuple(float(value) for value in values if value))

    def cycles(self) -> CycleCount:
        """Run the model once; firmware that was built to count only."""
        lines = self.command("cycles", self.timeouts.infer_s)
        found = tuple(int(match[1]) for line in lines if (match := re.fullmatch(r"m-cycles-(\d+)", line)))
        return CycleCount(self._field(lines, "m-cycles-by"), found)

    def outputs(self) -> bytes:
        """The model's outputs, one after another."""
        return self._output_bytes(self.command("out"))

    def reset(self) -> None:
        """Clear the state of a stateful model."""
        self.command("reset")

    def self_test(self) -> SelfTest:
        """Run the stored vectors on the board."""
        lines = self.command("test", self.timeouts.infer_s)
        for line in lines:
            if match := re.fullmatch(r"m-test-pass-(\d+)", line):
                return SelfTest(int(match[1]), None)
            if match := re.fullmatch(r"m-test-fail-\[(.*)\]", line):
                return SelfTest(0, match[1])
        raise ConsoleError(f"the self-test ended without a verdict: {lines}")

    def stack(self) -> tuple[int, int]:
        """Bytes of stack used since power-on, by the paint that start-up laid, and bytes reserved."""
        used, _, size = self._field(self.command("stack"), "m-stack").partition(",")
        return int(used), int(size)

    def run(self, rows: Iterable[bytes], load: Callable[[bytes], None] | None = None) -> Iterator[bytes]:
        """For each row of input bytes, in order: load, infer once, and yield the output bytes.

        `load` puts a row where the firmware reads it by another way than the console (see qemu.inputs).
        """
        for row in rows:
            if load is None:
                for text in self._load_commands(row):
                    yield from self._pass(text, self.timeouts.line_s)
            else:
                yield from self._take_all()
                load(row)
            yield from self._pass("infer 1 0", self.timeouts.infer_s)
            yield from self._pass("out", self.timeouts.line_s)
        yield from self._take_all()

    @staticmethod
    def _load_commands(data: bytes) -> Iterator[str]:
        yield f"db load {len(data)}"
        for start in range(0, len(data), LOAD_BYTES):
            yield f"db {data[start : start + LOAD_BYTES].hex()}"

    def _pass(self, text: str, timeout_s: float) -> Iterator[bytes]:
        while len(self._waiting) >= self._window:
            yield from self._take()
        self._send(text, timeout_s)

    def _take_all(self) -> Iterator[bytes]:
        while self._waiting:
            yield from self._take()

    def _take(self) -> Iterator[bytes]:
        text = self._waiting[0][0]
        lines = self._next()
        if text == "out":
            yield self._output_bytes(lines)

    def _pipeline(self, commands: Iterable[str]) -> None:
        for text in commands:
            if len(self._waiting) >= self._window:
                self._next()
            self._send(text, None)
        self._drain()

    def _drain(self) -> None:
        while self._waiting:
            self._next()

    def _send(self, text: str, timeout_s: float | None) -> None:
        self._transport.write(text.encode("ascii") + b"%")
        self._waiting.append((text, self.timeouts.line_s if timeout_s is None else timeout_s))

    def _next(self) -> list[str]:
        return self._answer(*self._waiting.popleft())

    def _answer(self, text: str, timeout_s: float) -> list[str]:
        lines: list[str] = []
        while READY not in (line := self._line(text, timeout_s)):
            lines.append(line)
            if line.startswith(FAULTS):
                self._waiting.clear()
                raise DeviceError(f"the firmware faulted at '{_short(text)}': {line}")
        errors = [line for line in lines if line.startswith("e-[")]
        if errors:
            self._waiting.clear()
            raise DeviceError(f"the board answered '{_short(text)}' with {' '.join(errors)}")
        return lines

    def _line(self, text: str, timeout_s: float) -> str:
        deadline = time.monotonic() + timeout_s
        while (end := self._received.find(b"\n")) < 0:
            left = deadline - time.monotonic()
            data = self._transport.read(left) if left > 0 else b""
            if not data:
                raise SilentDevice(f"no answer to '{_short(text)}' within {timeout_s:g} s{self._last_words()}")
            self._received += data
        line = bytes(self._received[:end]).translate(None, b"\r\0").decode("ascii", "replace")
        del self._received[: end + 1]
        self.log.append(line)
        return line

    def _last_words(self) -> str:
        partial = self._received.decode("ascii", "replace")
        lines = [*self.log, partial] if partial else list(self.log)
        return "; the board said last:\n" + "\n".join(lines[-8:]) if lines else ""

    @staticmethod
    def _field(lines: list[str], key: str) -> str:
        for line in lines:
            if match := re.fullmatch(rf"{re.escape(key)}-\[(.*)\]", line):
                return match[1]
        raise ConsoleError(f"no {key} in the board's answer: {lines}")

    @staticmethod
    def _output_bytes(lines: list[str]) -> bytes:
        found = [match[1] for line in lines if (match := re.fullmatch(r"m-out-\[([0-9A-Fa-f]*)\]", line))]
        if not found:
            raise ConsoleError(f"no outputs in the board's answer: {lines}")
        return bytes.fromhex("".join(found))


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
