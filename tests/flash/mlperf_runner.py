# SPDX-License-Identifier: Apache-2.0
"""A host that drives firmware as MLPerf Tiny's runner does (mlcommons/tiny, benchmark/runner): pyserial, commands that
end with `%`, lines split at LF without CR and NUL, a time-out a line, answers up to a line with `m-ready`."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

import serial

LINE_S, INFER_S, SETTLE_S = 5.0, 30.0, 2.0
BYTES_A_COMMAND = 31


class RunnerError(Exception):
    """The firmware did not answer as the runner expects."""


@dataclass(frozen=True)
class Load:
    """A model's part of the performance mode: `infer <inferences> <warmups>`."""

    inferences: int
    warmups: int


PERFORMANCE = {"ic01": Load(20, 5), "kws01": Load(70, 10), "vww01": Load(20, 5), "ad01": Load(1500, 10)}
REPETITIONS = 5


@dataclass(frozen=True)
class Sample:
    """A line of y_labels.csv with its file: what is sent at a time, and the class."""

    inputs: tuple[bytes, ...]
    label: int


def read_samples(folder: Path) -> list[Sample]:
    """`file,classes,class`, and for windows `,bytes,stride`."""
    found: list[Sample] = []
    for line in (folder / "y_labels.csv").read_text().splitlines():
        name, _, label, *window = line.split(",")
        data = (folder / name).read_bytes()
        size, stride = (int(window[0]), int(window[1])) if window else (len(data), 1)
        inputs = tuple(data[at : at + size] for at in range(0, len(data) - size + 1, stride))
        found.append(Sample(inputs, int(label)))
    return found


class Runner:
    """One run: identifies the firmware over a port that is then closed and opened again."""

    def __init__(self, port: str) -> None:
        self._name, self._received = port, b""
        self.device, self.model = self._open(SETTLE_S)
        self._port.close()
        again = self._open(0.2)
        if again != (self.device, self.model):
            raise RunnerError(f"the device is another after the port was opened again: {again}")

    def _open(self, settle_s: float) -> tuple[str, str]:
        self._port = serial.Serial(self._name, 115200, timeout=0.05)
        time.sleep(settle_s)
        self._port.reset_input_buffer()
        self._received = b""
        name = self._only(self.ask("name"), r"m-name-dut-\[([^\]]+)\]")
        profile = self.ask("profile")
        self._only(profile, r"m-profile-\[([^\]]+)\]")
        return name, self._only(profile, r"m-model-\[([^\]]+)\]")

    def close(self) -> None:
        self._port.close()

    def ask(self, command: str, line_s: float = LINE_S) -> list[str]:
        """The lines of an answer, without `m-ready`."""
        self._port.write(f"{command}%".encode())
        lines: list[str] = []
        while "m-ready" not in (line := self._line(command, line_s)):
            lines.append(line)
        return lines

    def _line(self, command: str, line_s: float) -> str:
        end = time.monotonic() + line_s
        while b"\n" not in self._received:
            if time.monotonic() > end:
                raise RunnerError(f"no line within {line_s} s after {command[:40]!r}; last came {self._received!r}")
            self._received += self._port.read(max(1, self._port.in_waiting))
        line, _, self._received = self._received.partition(b"\n")
        return line.translate(None, b"\r\0").decode("ascii")

    @staticmethod
    def _only(lines: list[str], pattern: str) -> str:
        found = [match[1] for line in lines if (match := re.fullmatch(pattern, line))]
        if len(found) != 1:
            raise RunnerError(f"not one line of the form {pattern} in {lines}")
        return found[0]

    def timestamp(self) -> int:
        """Microseconds of the device's clock."""
        return int(self._only(self.ask("timestamp"), r"m-lap-us-(\d+)"))

    def load(self, data: bytes) -> None:
        """The input buffer, 31 bytes a command."""
        self._only(self.ask(f"db load {len(data)}"), rf"(m-\[Expecting {len(data)} bytes\])")
        answers: list[str] = []
        for at in range(0, len(data), BYTES_A_COMMAND):
            answers = self.ask(f"db {data[at : at + BYTES_A_COMMAND].hex()}")
            last = at + BYTES_A_COMMAND >= len(data)
            if answers != (["m-load-done"] if last else []):
                raise RunnerError(f"bytes {at} on were answered with {answers}")

    def infer(self, inferences: int, warmups: int) -> tuple[list[float], int]:
        """Results, and the microseconds between the two time stamps."""
        lines = self.ask(f"infer {inferences} {warmups}", INFER_S)
        begins = [f"m-warmup-start-{warmups}", "m-warmup-done", f"m-infer-start-{inferences}"]
        laps = [int(match[1]) for line in lines if (match := re.fullmatch(r"m-lap-us-(\d+)", line))]
        if lines[:3] != begins or len(laps) != 2 or lines[5] != "m-infer-done" or len(lines) != 7:
            raise RunnerError(f"infer was answered with {lines}")
        results = [float(value) for value in self._only(lines, r"m-results-\[(.*)\]").split(",") if value]
        return results, laps[1] - laps[0]

    def performance(self, sample: bytes, load: Load, repetitions: int = REPETITIONS) -> list[float]:
        """Inferences a second of each repetition, by the device's clock."""
        rates = []
        for _ in range(repetitions):
            self.load(sample)
            _, microseconds = self.infer(load.inferences, load.warmups)
            if microseconds <= 0:
                raise RunnerError("no time passed between the time stamps")
            rates.append(1e6 * load.inferences / microseconds)
        return rates

    def accuracy(self, samples: list[Sample]) -> list[list[float]]:
        """Each sample's results: a distribution over the classes, or for windows the mean of their distances."""
        found = []
        for sample in samples:
            answers = []
            for data in sample.inputs:
                self.load(data)
                results, _ = self.infer(1, 0)
                if self._only(self.ask("results"), r"m-results-\[(.*)\]").strip(",") == "":
                    raise RunnerError("`results` is empty")
                answers.append(results)
            if len(answers[0]) == 1:
                found.append([sum(answer[0] for answer in answers) / len(answers)])
            else:
                total = sum(answers[0])
                found.append([value / total for value in answers[0]])
        return found


def area_under_curve(scores: list[float], labels: list[int]) -> float:
    """The share of pairs, one of class 1 and one of class 0, that the scores put in the right order."""
    pairs = [
        (a, b)
        for a, one in zip(scores, labels, strict=True)
        for b, none in zip(scores, labels, strict=True)
        if one == 1 and none == 0
    ]
    return sum((a > b) + 0.5 * (a == b) for a, b in pairs) / len(pairs)
