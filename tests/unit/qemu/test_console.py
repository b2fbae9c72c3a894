# SPDX-License-Identifier: Apache-2.0
"""The console client against a board that is a function from commands to answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from qemu.console import LOAD_BYTES, Console, ConsoleError, DeviceError, SilentDevice, Timeouts


class FakeBoard:
    """Answers each command with the text that `answer` gives, in pieces of `piece` bytes."""

    def __init__(self, answer: Callable[[str], str | None], piece: int = 7) -> None:
        self.commands: list[str] = []
        self.ahead = 0
        self._answer, self._piece = answer, piece
        self._sent = bytearray()
        self._partial = b""

    def write(self, data: bytes) -> None:
        *commands, self._partial = (self._partial + data).split(b"%")
        for command in commands:
            self.commands.append(command.decode())
            answer = self._answer(command.decode())
            self._sent += b"" if answer is None else answer.encode().replace(b"\n", b"\r\n")
        self.ahead = max(self.ahead, self._sent.count(b"m-ready"))

    def read(self, timeout_s: float) -> bytes:
        data = bytes(self._sent[: self._piece])
        del self._sent[: self._piece]
        return data


class EchoModel:
    """A board whose model returns its input reversed."""

    def __init__(self) -> None:
        self._size = 0
        self._data = b""

    def __call__(self, command: str) -> str:
        words = command.split()
        match words:
            case ["db", "load", size]:
                self._size, self._data = int(size), b""
                return f"m-[Expecting {size} bytes]\nm-ready\n"
            case ["db", digits]:
                assert len(command) < 80
                self._data += bytes.fromhex(digits)
                return ("m-load-done\n" if len(self._data) == self._size else "") + "m-ready\n"
            case ["infer", "1", "0"]:
                return "m-infer-start-1\nm-lap-us-1\nm-lap-us-2\nm-infer-done\nm-results-[1,]\nm-ready\n"
            case ["out"]:
                data = self._data[::-1]
                lines = [f"m-out-[{data[at : at + 32].hex()}]\n" for at in range(0, len(data), 32)]
                return "".join(lines) + "m-ready\n"
        return f"e-[Unknown command: {command}]\nm-ready\n"


@pytest.mark.parametrize("window", [1, 3, 100])
def test_rows_pass_through_the_model_in_order(window: int) -> None:
    board = FakeBoard(EchoModel())
    rows = [bytes(range(n)) for n in (1, LOAD_BYTES, LOAD_BYTES + 1, 200)]
    assert list(Console(board, window).run(rows)) == [row[::-1] for row in rows]
    assert board.ahead <= window


def test_load_splits_into_commands_that_fit_the_board_line() -> None:
    board = FakeBoard(EchoModel())
    Console(board).load(bytes(100))
    assert [len(c) for c in board.commands] == [len("db load 100"), 3 + 72, 3 + 72, 3 + 56]


def test_fields() -> None:
    answers = {
        "name": "noise\nm-name-dut-[my board]\nm-ready\n",
        "profile": "m-profile-[tinykiln]\nm-model-[kws01]\nm-ready\n",
        "stack": "m-stack-[812,1024]\nm-ready\n",
        "reset": "m-ready\n",
    }
    console = Console(FakeBoard(answers.get))
    assert console.name() == "my board"
    assert console.model() == "kws01"
    assert console.stack() == (812, 1024)
    console.reset()


def test_timing_survives_the_wrap_of_the_clock() -> None:
    text = "m-warmup-start-2\nm-warmup-done\nm-lap-us-4294967000\nm-lap-us-704\nm-results-[0.1,-2,3e-2]\nm-ready\n"
    timing = Console(FakeBoard(lambda _: text)).infer(5, 2)
    assert (timing.count, timing.microseconds, timing.results) == (5, 1000, (0.1, -2.0, 0.03))


def test_self_test() -> None:
    assert Console(FakeBoard(lambda _: "m-test-pass-3\nm-ready\n")).self_test().vectors == 3
    failed = Console(FakeBoard(lambda _: "m-test-fail-[vector 1 output 0 index 5 got 3 want 4]\nm-ready\n")).self_test()
    assert failed.failure == "vector 1 output 0 index 5 got 3 want 4"
    with pytest.raises(ConsoleError, match="without a verdict"):
        Console(FakeBoard(lambda _: "m-ready\n")).self_test()


def test_errors_are_the_boards_words_and_the_dialogue_goes_on() -> None:
    console = Console(FakeBoard(lambda c: "m-name-dut-[x]\nm-ready\n" if c == "name" else "e-[Bad hex]\nm-ready\n"))
    with pytest.raises(DeviceError, match=r"answered 'db 0' with e-\[Bad hex\]"):
        console.command("db 0")
    assert console.name() == "x"


def test_a_fault_report_ends_the_wait() -> None:
    fault = "e-[Fault cause 00000003 pc 00000100 lr 00000000 dispatch 4]\n"
    console = Console(FakeBoard(lambda _: fault), timeouts=Timeouts(line_s=0.05))
    with pytest.raises(DeviceError, match=r"Fault cause 00000003.*dispatch 4"):
        console.command("out")


def test_silence_quotes_the_last_lines() -> None:
    console = Console(FakeBoard(lambda _: "m-lap-us-1\nhalf"), timeouts=Timeouts(line_s=0.05))
    with pytest.raises(SilentDevice, match=r"(?s)no answer to 'out' within 0.05 s.*m-lap-us-1\nhalf"):
        console.command("out")


def test_missing_outputs_and_fields() -> None:
    console = Console(FakeBoard(lambda _: "m-ready\n"))
    with pytest.raises(ConsoleError, match="no outputs"):
        console.outputs()
    with pytest.raises(ConsoleError, match="no m-name-dut"):
        console.name()
    with pytest.raises(ConsoleError, match="did not report its time"):
        console.infer()
