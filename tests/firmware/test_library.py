# SPDX-License-Identifier: Apache-2.0
"""The exported library in projects of others: CMake's is built and run, the other forms are built by their metadata."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boards.board import Board
from boards.loader import load_board
from compiler.compile import compile_model
from compiler.model import Model
from qemu.machine import Emulation
from toolchain.firmware import build_firmware
from toolchain.library import archive_folder, write_library
from toolchain.options import FirmwareOptions
from toolchain.report.contents import read_report
from toolchain.target import target_of

ROOT = Path(__file__).parents[2]
NAME = "mnist_nano_int8"
BOARDS = ("qemu_m3", "qemu_rv32imac")

MAIN = """
#include "mnist_nano_int8.h"
static const int8_t digit[] = { DIGIT };
extern uint32_t stack_top[];
int main(void);
#ifdef __arm__
void reset(void) { main(); for (;;) { } }
__attribute__((section(".start"), used)) static const void *const vectors[] = { stack_top, (const void *)reset };
static void put(char c) { volatile uint32_t *u = (volatile uint32_t *)0x40004000; u[2] = 1; u[0] = (uint8_t)c; }
#else
__asm__(".section .start, \\"ax\\"\\n la sp, stack_top\\n call main\\n1: j 1b\\n .text");
static void put(char c) { *(volatile uint8_t *)0x10000000 = (uint8_t)c; }
#endif
int main(void)
{
    for (unsigned i = 0; i < sizeof digit; i++) mnist_nano_int8_input_0()[i] = digit[i];
    mnist_nano_int8_invoke();
    for (unsigned i = 0; i < MNIST_NANO_INT8_OUTPUT_0_ELEMENTS; i++) {
        uint8_t byte = (uint8_t)mnist_nano_int8_output_0()[i];
        put("0123456789abcdef"[byte >> 4]);
        put("0123456789abcdef"[byte & 15]);
    }
    put('.');
    return 0;
}
"""

SCRIPT = """
MEMORY { FLASH (rx) : ORIGIN = %#x, LENGTH = 256K RAM (rw) : ORIGIN = %#x, LENGTH = 64K }
SECTIONS {
    .text : { KEEP(*(.start)) *(.text*) *(.rodata*) *(.srodata*) } > FLASH
    .bss (NOLOAD) : { *(.bss*) *(.sbss*) *(COMMON) . = ALIGN(16); . += 4096; stack_top = .; } > RAM
    /DISCARD/ : { *(.ARM.exidx*) *(.eh_frame*) }
}
"""

PROJECT = """
cmake_minimum_required(VERSION 3.13)
project(user C)
add_executable(app main.c)
add_subdirectory(library)
target_link_libraries(app PRIVATE mnist_nano_int8)
target_link_options(app PRIVATE -nostartfiles -T ${CMAKE_SOURCE_DIR}/user.ld)
"""

ZEPHYR = """
cmake_minimum_required(VERSION 3.13)
project(zephyr_stand_in NONE)
set(CONFIG_MNIST_NANO_INT8 y)
function(zephyr_library_import name file)
    message(STATUS "import ${name} ${file}")
endfunction()
function(zephyr_include_directories)
    message(STATUS "include ${ARGV}")
endfunction()
function(zephyr_sources)
    message(STATUS "sources ${ARGV}")
endfunction()
add_subdirectory(library/zephyr)
"""


@pytest.fixture(scope="module", params=BOARDS)
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Board, Path, bytes]:
    """A board, a folder with `library/` and a program of the user's, and the bytes that it must print."""
    board, folder = load_board(request.param), tmp_path_factory.mktemp(request.param)
    file = ROOT / "models" / f"{NAME}.tflite"
    compiled = compile_model(Model(file.name, file.read_bytes()), target_of(board.core))
    build_firmware(board, compiled, folder, FirmwareOptions())
    library = write_library(folder, board.core, read_report(folder / "report.json"))
    user = folder / "user"
    user.mkdir()
    library.rename(user / "library")
    with np.load(ROOT / "models" / f"{NAME}.samples.npz") as samples:
        digit, wanted = samples["in0"][0], samples["out0"][0]
    (user / "main.c").write_text(MAIN.replace("DIGIT", ", ".join(map(str, digit.ravel()))))
    (user / "user.ld").write_text(SCRIPT % (board.flash.origin, board.ram.origin))
    return board, user, wanted.tobytes()


def flags_of(board: Board) -> tuple[str, ...]:
    """The project's own flags; it has no C library."""
    return (*board.core.multilib_flags, "-ffreestanding")


def succeed(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def printed(board: Board, elf: Path) -> str:
    text, end = "", time.monotonic() + 20
    with Emulation(board.emulator, elf, 60.0) as emulation:
        emulation.resume()
        while "." not in text and time.monotonic() < end:
            text += emulation.read(0.1).decode()
    return text


def test_a_cmake_project_builds_and_runs(project: tuple[Board, Path, bytes]) -> None:
    board, user, wanted = project
    (user / "CMakeLists.txt").write_text(PROJECT)
    cross = ["-DCMAKE_SYSTEM_NAME=Generic", "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY"]
    flags = [f"-DCMAKE_C_COMPILER={board.core.gcc}", f"-DCMAKE_C_FLAGS={' '.join((*flags_of(board), '-O2'))}"]
    libraries = ["-DCMAKE_C_STANDARD_LIBRARIES=-nostdlib -lgcc"]
    succeed(["cmake", "-S", ".", "-B", "cmake", *cross, *flags, *libraries], user)
    succeed(["cmake", "--build", "cmake"], user)
    assert printed(board, user / "cmake" / "app") == wanted.hex() + "."


def test_platformio_builds_by_library_json(project: tuple[Board, Path, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """The script is run as PlatformIO does: in the library's folder, with `env` imported from its builder."""
    board, user, wanted = project
    library = user / "library"
    manifest = json.loads((library / "library.json").read_text())
    build = manifest["build"]
    added: dict[str, list[str]] = {}

    class Environment:
        def Append(self, **values: list[str]) -> None:
            added.update(values)

    monkeypatch.chdir(library)
    names: dict[str, Any] = {"Import": lambda _: None, "env": Environment(), "DefaultEnvironment": Environment}
    exec(compile((library / build["extraScript"]).read_text(), build["extraScript"], "exec"), names)
    for header in manifest["headers"]:
        assert (library / build["includeDir"] / header).is_file()
    sources = [str(path) for path in sorted((library / build["srcDir"]).rglob("*.c"))]
    command = [board.core.gcc, *flags_of(board), "-nostdlib", "-T", "user.ld", "main.c", *sources]
    command += [f"-I{library / build['includeDir']}", *(f"-L{path}" for path in added["LIBPATH"])]
    succeed([*command, *(f"-l{name}" for name in added["LIBS"]), "-lgcc", "-o", "pio.elf"], user)
    assert printed(board, user / "pio.elf") == wanted.hex() + "."


def test_arduino_builds_by_library_properties(project: tuple[Board, Path, bytes]) -> None:
    """The archive is where Arduino's builder looks for it, and the sketch compiles with a stand-in for its core."""
    board, user, _ = project
    library = user / "library"
    lines = (library / "library.properties").read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines if line)
    needed = {"name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url", "architectures"}
    assert needed <= set(properties) and properties["precompiled"] == "true"
    archive = f"lib{properties['ldflags'].removeprefix('-l')}.a"
    place = {"qemu_m3": "src/cortex-m3", "qemu_rv32imac": "src/rv32imac"}[board.name]
    assert (library / place / archive).is_file()
    sketch = library / "examples" / NAME / f"{NAME}.ino"
    core = "struct S { void begin(long); void println(int); }; extern S Serial; void delay(unsigned long);\n"
    (user / "sketch.cpp").write_text(core + sketch.read_text())
    command = [board.core.gcc, *flags_of(board), "-Wall", "-Werror", f"-I{library / 'src'}", "-c"]
    succeed([*command, "sketch.cpp"], user)
    succeed([*command, *map(str, sorted((library / "src").glob("*.c")))], user)


def test_zephyr_finds_what_the_module_names(project: tuple[Board, Path, bytes]) -> None:
    """The module's CMake code is run with stand-ins for Zephyr's functions; each file that it names is there."""
    _, user, _ = project
    zephyr = user / "library" / "zephyr"
    lines = [line.strip() for line in (zephyr / "module.yml").read_text().splitlines()]
    assert f"name: {NAME}" in lines and "cmake: zephyr" in lines and "kconfig: zephyr/Kconfig" in lines
    assert f"config {NAME.upper()}\n\tbool" in (zephyr / "Kconfig").read_text()
    (user / "CMakeLists.txt").write_text(ZEPHYR)
    told = succeed(["cmake", "-S", ".", "-B", "zephyr_build"], user)
    named = [
        line.split()[-1] for line in told.splitlines() if line.split()[1:2] in (["import"], ["include"], ["sources"])
    ]
    assert len(named) == 3 and all(os.path.exists(path) for path in named)


def test_other_flags_are_told(project: tuple[Board, Path, bytes]) -> None:
    board, user, _ = project
    others = {
        "qemu_m3": (("-mcpu=cortex-m0", "-mthumb"), ("-mcpu=cortex-m4", "-mthumb", "-mfpu=auto", "-mfloat-abi=hard")),
        "qemu_rv32imac": (("-march=rv32imafc", "-mabi=ilp32f"), ("-march=rv32ec", "-mabi=ilp32e")),
    }[board.name]
    for flags in others:
        command = [board.core.gcc, *flags, "-ffreestanding", "-c", f"library/src/{NAME}_abi.c"]
        done = subprocess.run(command, cwd=user, capture_output=True, text=True, check=False)
        assert done.returncode != 0 and "does not hold here" in done.stderr


def test_archives_are_where_arduino_looks() -> None:
    assert archive_folder(load_board("netduinoplus2").core) == "src/cortex-m4/fpv4-sp-d16-hard"
    assert archive_folder(load_board("ch32v003").core) == "src/rv32ec"
