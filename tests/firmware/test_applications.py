# SPDX-License-Identifier: Apache-2.0
"""Applications of the user's own in place of the console: the examples as they are run, C++, and what is refused."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from boards.board import Board
from boards.loader import load_board
from compiler.artifact import CompiledModel
from compiler.compile import compile_model
from compiler.errors import UserError
from compiler.model import Model
from qemu.machine import Emulation
from qemu.stack import StackRegion
from tests.firmware.fake import fake_model
from toolchain.bundle import Bundle
from toolchain.elf.file import read_elf
from toolchain.firmware import FirmwareResult, build_firmware
from toolchain.options import FirmwareOptions
from toolchain.target import target_of

ROOT = Path(__file__).parents[2]


def heard(board: Board, result: FirmwareResult, last: str) -> tuple[str, int]:
    """What the application sends, up to a line, and the bytes of stack it used."""
    text, end = "", time.monotonic() + 20
    with Emulation(board.emulator, result.runs, 60.0) as emulation:
        emulation.resume()
        while last not in text and time.monotonic() < end:
            text += emulation.read(0.1).decode()
        return text, StackRegion.of(result.runs).high_water(emulation)


def shipped(board: Board, *names: str) -> list[CompiledModel]:
    files = [ROOT / "models" / f"{name}.tflite" for name in names]
    return [compile_model(Model(file.name, file.read_bytes()), target_of(board.core)) for file in files]


@pytest.mark.parametrize("name", ("netduinoplus2", "ch32v"))
def test_the_sensor_example_names_each_digit(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    (model,) = shipped(board, "mnist_mlp_int8")
    result = build_firmware(board, model, tmp_path, FirmwareOptions(app=ROOT / "docs/examples/adc"))
    text, used = heard(board, result, "class 9\r\nclass 3\r\nclass 9\r\n")
    assert text == "class 9\r\nclass 3\r\nclass 9\r\n"
    assert used <= result.stack.program <= 1.25 * used


@pytest.mark.parametrize("name", ("netduinoplus2", "ch32v"))
def test_two_models_share_an_arena_and_kernels(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    first, second = shipped(board, "mnist_mlp_int8", "mnist_nano_int8")
    options = FirmwareOptions(app=ROOT / "docs/examples/two_models")
    result = build_firmware(board, first, tmp_path, options, (second,))
    assert result.sizes.ram.arena == max(first.arena_bytes, second.arena_bytes)
    text, used = heard(board, result, "of 3\r\n")
    assert text == "classes 9 and 9\r\nclasses 3 and 3\r\nclasses 9 and 9\r\nagreed on 3 of 3\r\n"
    assert used <= result.stack.program <= 1.25 * used


def test_equal_kernels_come_once() -> None:
    file, target = ROOT / "models" / "mnist_nano_int8.tflite", target_of(load_board("qemu_m3").core)
    one, other = (compile_model(Model(name, file.read_bytes()), target) for name in ("one.tflite", "other.tflite"))
    names = [part.name for part in Bundle((one, other)).objects]
    assert len(names) == len(one.objects) + 1 and len(set(names)) == len(names)


def test_models_with_state_keep_their_arenas(tmp_path: Path) -> None:
    model = fake_model(load_board("qemu_m3"), tmp_path)
    other, stateful = replace(model, prefix="other", arena_bytes=36), replace(model, prefix="state", stateful=True)
    bundle = Bundle((other, model, stateful))
    assert [m.prefix for m in bundle.arenas] == ["fake", "state"] and bundle.guests == (other,)
    assert bundle.arena_bytes == 128
    with pytest.raises(UserError, match="two models have the same C names"):
        Bundle((model, replace(model, arena_bytes=16)))


def app(folder: Path, **files: str) -> FirmwareOptions:
    for name, text in files.items():
        path = folder / name.replace("_", ".", 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('#include <stdlib.h>\n#include "fake.h"\n#include "firmware.h"\n' + text)
    return FirmwareOptions(app=folder)


REST = "int main(void) { fake_invoke(); for (;;) { } }\n"


@pytest.mark.parametrize(
    ("files", "message"),
    (
        ({"main_c": "void far_away(void);\nint main(void)\n{\n    far_away();\n}\n"}, "user/main.c:7: far_away"),
        (
            {"main_c": "int main(void) { fake_invoke(); }\n", "b_c": "\nint main(void) { return 1; }\n"},
            "main: user/main.c:4 and user/b.c:5",
        ),
        (
            {"main_c": "int main(void)\n{\n    return malloc(4) != 0;\n}\n"},
            "user/main.c:6: malloc needs a heap, and there is none",
        ),
        (
            {"main_cpp": "int main()\n{\n    int *volatile p = new int; *p = 4;\n}\n"},
            "user/main.cpp:6: operator new needs a heap, and there is none",
        ),
        ({"main_c": "int other(void) { fake_invoke(); return 0; }\n"}, "main"),
        ({"main_c": "int main(void) { return 0; }\n"}, "does the application invoke every model?"),
        ({"main_c": "int main(void) { fake_invoke() }\n"}, "user/main.c:4:31: error"),
        ({"main_c": '#include "nothere.h"\n' + REST}, "user/main.c:4:10: fatal error: nothere.h"),
        ({"main_c": "int main(void)\n{\n    exit(3);\n}\n"}, "user/main.c:6: exit needs an operating system"),
        (
            {"main_c": '#include <stdio.h>\nint main(void) { char t[9]; return sprintf(t, "%d", 1); }\n'},
            "user/main.c:5: sprintf needs stdio",
        ),
        ({"main_cpp": "int main() { char *volatile p = new char[9]; *p = 1; }\n"}, "main.cpp:4: operator new[] needs"),
        ({"main_cpp": "int main() { fake_invoke(); throw 3; }\n"}, "main.cpp:4:35: error: exception handling disabled"),
        ({"main_c": "int shared = 1;\n" + REST, "b_c": "\nint shared = 2;\n"}, "shared: user/main.c:4 and user/b.c:5"),
        ({"main_c": "void fake_invoke(void) { }\n" + REST}, "fake_invoke: user/main.c:4 and "),
        ({"main_c": "void firmware_put(char b) { (void)b; }\n" + REST}, "firmware_put: user/main.c:4 and "),
        (
            {"main_c": "int (*volatile p)(int) = abs;\nint main(void) { fake_invoke(); return p(3); }\n"},
            "the stack of main has no bound: an indirect call",
        ),
        (
            {"main_c": "int main(void) { volatile int n = 3; volatile char a[n]; fake_invoke(); return a[0]; }\n"},
            "the stack of main has no bound: sp takes a value",
        ),
        (
            {
                "main_c": "int f(volatile int *n) { return *n ? 1 + f(n) * *n : 0; }\n"
                "int main(void) { volatile int n = 3; fake_invoke(); return f(&n); }\n"
            },
            "functions call themselves",
        ),
    ),
    ids=(
        "undefined",
        "duplicate",
        "heap",
        "operator_new",
        "no_main",
        "no_model",
        "syntax",
        "header",
        "exit",
        "stdio",
        "array",
        "throw",
        "variable",
        "invoke",
        "put",
        "pointer",
        "vla",
        "recursion",
    ),
)
@pytest.mark.parametrize("name", ("qemu_m3", "qemu_rv32imac"))
def test_names_file_and_line(tmp_path: Path, name: str, files: dict[str, str], message: str) -> None:
    board = load_board(name)
    with pytest.raises(UserError) as caught:
        build_firmware(board, fake_model(board, tmp_path), tmp_path / "out", app(tmp_path / "user", **files))
    assert message in str(caught.value)


CONSTRUCTED = """
struct Base {
    int value;
    explicit Base(int first) : value(deep(first)) { order = order * 10 + first; }
    static int deep(int first) { volatile char room[200]; room[0] = 3; return first * room[0]; }
    static int order;
};
int Base::order = 0;
__attribute__((init_priority(300))) Base late(2);
__attribute__((init_priority(200))) Base early(1);
int main()
{
    fake_invoke();
    firmware_put_number(Base::order); firmware_put(' '); firmware_put_number(-late.value - early.value);
    firmware_put_text(".");
}
"""


@pytest.mark.parametrize("name", ("microbit", "qemu_m3", "qemu_rv32imac", "qemu_rv32ec"))
def test_constructors_run_in_order(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    options = app(tmp_path / "user", main_cpp=CONSTRUCTED)
    result = build_firmware(board, fake_model(board, tmp_path), tmp_path / "out", options)
    text, used = heard(board, result, ".")
    assert text == "12 -9."
    assert 200 <= used <= result.stack.program <= 1.25 * used
    assert "run_constructors" in [symbol.name for symbol in read_elf(result.elf.read_bytes()).symbols]
