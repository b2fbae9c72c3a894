# SPDX-License-Identifier: Apache-2.0
"""The files of a build: the same bytes anywhere, a header for C and C++, vectors and start-up as each core wants."""

from __future__ import annotations

import hashlib
import json
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from boards.loader import load_board
from compiler.errors import UserError
from qemu.symbols import Symbols
from tests.firmware.emulated import booted
from tests.firmware.fake import fake_model
from tests.firmware.fake_state import state_model
from toolchain.elf.disassembly import disassemble
from toolchain.elf.file import read_elf
from toolchain.firmware import build_firmware
from toolchain.gcc import compiler_for
from toolchain.images.boot2 import crc32_mpeg2
from toolchain.options import FirmwareOptions


@pytest.mark.parametrize("name", ("ch32v307", "pico", "qemu_m4f"))
def test_two_folders_give_the_same_bytes(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    model = fake_model(board, tmp_path)
    digests = []
    for folder in (tmp_path / "one", tmp_path / "another" / "deeper"):
        build_firmware(board, model, folder, FirmwareOptions())
        files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".map")
        digests.append({str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files})
    assert digests[0] == digests[1]
    assert {"firmware.elf", "firmware.bin", "firmware.hex", "report.json", "include/fake.h"} <= set(digests[0])


def test_report_adds_up(tmp_path: Path) -> None:
    board = load_board("bluepill")
    result = build_firmware(board, fake_model(board, tmp_path), tmp_path, FirmwareOptions())
    report = json.loads(result.report.read_text())
    flash, ram = report["flash"], report["ram"]
    assert flash["code"] + flash["constants"] == flash["total"] == (tmp_path / "firmware.bin").stat().st_size
    assert flash["constants"] == 32 and flash["limit"] == board.flash.size
    assert ram["arena"] + ram["static"] + ram["stack"] == ram["total"] <= ram["limit"] == board.ram.size
    assert ram["arena"] == 64 and ram["stack"] >= report["stack"]["bound"] == result.stack.bytes
    assert report["model"]["name"] == "fake" and report["schema"] == 1 and list(report) == sorted(report)
    assert report["stack"]["path"][0]["function"] == "Reset_Handler"


def test_the_header_serves_c_and_cpp(tmp_path: Path) -> None:
    board = load_board("qemu_m4f")
    result = build_firmware(board, state_model(board, tmp_path), tmp_path, FirmwareOptions())
    text = result.header.read_text()
    for line in (
        "#define STATE_ARENA_BYTES 64",
        "#define STATE_INPUT_0_BYTES 6",
        "#define STATE_INPUT_0_SHAPE { 3 }",
        "#define STATE_INPUT_0_SCALE 0.25f",
        "#define STATE_INPUT_0_ZERO_POINT (0)",
        "#define STATE_INPUT_1_SHAPE { 1, 3 }",
        "int16_t *state_input_0(void);",
        "const float *state_output_0(void);",
        "void state_reset(void);",
        "#define state_input_b_x_0 state_input_1",
    ):
        assert line in text.splitlines(), line
    assert "STATE_INPUT_1_SCALE" not in text
    for suffix in ("c", "cpp"):
        user = tmp_path / f"user.{suffix}"
        user.write_text(
            '#include "state.h"\nint use(void);\nint use(void) { static const int s[] = STATE_INPUT_1_SHAPE;\n'
            "state_input_b_x_0()[0] = STATE_INPUT_0_SCALE; state_invoke(); return s[0] + state_output_1()[0]; }\n"
        )
        standard = "-std=c99" if suffix == "c" else "-std=c++11"
        compiler = "arm-none-eabi-gcc" if suffix == "c" else "arm-none-eabi-g++"
        warnings = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-ffreestanding"]
        command = [compiler, standard, *warnings, "-I", str(result.header.parent), "-c", str(user)]
        subprocess.run([*command, "-o", str(tmp_path / "user.o")], check=True)


def test_pico_starts_with_a_checked_boot_loader(tmp_path: Path) -> None:
    board = load_board("pico")
    result = build_firmware(board, fake_model(board, tmp_path), tmp_path, FirmwareOptions())
    image = (tmp_path / "firmware.bin").read_bytes()
    assert struct.unpack_from("<I", image, 252)[0] == crc32_mpeg2(image[:252])
    stack, reset = struct.unpack_from("<2I", image, 256)
    symbols = Symbols(result.elf)
    assert stack == symbols["__stack_top"].address
    assert reset == symbols["Reset_Handler"].address | 1
    assert (tmp_path / "firmware.uf2").stat().st_size == 512 * -(-len(image) // 256)
    assert not hasattr(read_elf(result.runs.read_bytes()).section(".boot_header"), "size")


@pytest.mark.parametrize("core_of", ("lpc1768", "microbit"))
def test_lpc_vectors_sum_to_zero(tmp_path: Path, core_of: str) -> None:
    """Armv6-M has other handlers there."""
    board = replace(load_board("lpc1768"), core=load_board(core_of).core)
    result = build_firmware(board, fake_model(board, tmp_path), tmp_path, FirmwareOptions())
    vectors = struct.unpack_from("<8I", (tmp_path / "firmware.bin").read_bytes())
    assert sum(vectors) & 0xFFFFFFFF == 0 and vectors[7]
    assert vectors[1] == Symbols(result.elf)["Reset_Handler"].address | 1
    assert read_elf(result.runs.read_bytes()).word(board.emulator.memories[0].origin + 28) != vectors[7]


@pytest.mark.parametrize(("name", "prologue"), (("ch32v003", False), ("ch32v307", True)))
def test_qingke_registers_are_written_on_the_chip_only(tmp_path: Path, name: str, prologue: bool) -> None:
    board = load_board(name)
    result = build_firmware(board, fake_model(board, tmp_path), tmp_path, FirmwareOptions())
    compiler = compiler_for(board.core, tmp_path)
    written = {}
    for elf in (result.elf, result.runs):
        code = disassemble(compiler, elf).instructions.values()
        written[elf] = [i.operands.split(",")[1] for i in code if i.mnemonic == "csrrw"]
    assert "0x804" in written[result.elf] and ("0xbc0" in written[result.elf]) == prologue
    assert not {"0x804", "0xbc0"} & set(written[result.runs])


@pytest.mark.parametrize("name", ["ch32v003", "ch32v307"])
def test_the_chips_interrupts_are_in_the_table_of_applications(tmp_path: Path, name: str) -> None:
    board, app = load_board(name), tmp_path / "app"
    app.mkdir()
    (app / "main.c").write_text('#include "fake.h"\nint main(void) { fake_invoke(); for (;;) { } }\n')
    result = build_firmware(board, fake_model(board, tmp_path), tmp_path / "out", FirmwareOptions(app=app))
    table = read_elf(result.elf.read_bytes())
    default = table.symbol("Default_Handler").address
    assert table.word(table.symbol("__vectors").address + 4 * 3) == default
    for slot, handler in enumerate(board.vectors, start=16):
        assert not handler or table.word(table.symbol("__vectors").address + 4 * slot) == default


def test_model_objects_are_the_same_in_firmware_and_twin(tmp_path: Path) -> None:
    board = load_board("ch32v203")
    result = build_firmware(board, fake_model(board, tmp_path), tmp_path, FirmwareOptions())
    assert result.runs.name == "emulator.elf" and result.elf.name == "firmware.elf"
    images = [read_elf(elf.read_bytes()) for elf in (result.elf, result.runs)]
    for function in ("row", "fake_output_0"):
        sizes = {elf.symbol(function).size for elf in images}
        assert len(sizes) == 1 and sizes.pop() > 0


APPLICATION = """
#include <string.h>
#include "fake.h"
extern volatile uint32_t fake_dispatch;
static char text[20];
#ifdef __riscv
#define SysTick_Handler trap_entry
__attribute__((interrupt, aligned(4)))
#endif
void SysTick_Handler(void);
void SysTick_Handler(void) { volatile uint32_t room[100]; room[fake_dispatch & 63] = 1; }
int main(void);
int main(void)
{
    strcpy(text, "ready");
    memset(fake_input_0(), (int)strlen(text), FAKE_INPUT_0_BYTES);
    fake_invoke();
    for (;;) { }
}
"""


@pytest.mark.parametrize("name", ("qemu_m3", "qemu_rv32imac", "qemu_rv32ec"))
def test_an_application_takes_the_consoles_place(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "main.c").write_text(APPLICATION)
    result = build_firmware(board, fake_model(board, tmp_path), tmp_path / "out", FirmwareOptions(app=folder))
    symbols = [symbol.name for symbol in read_elf(result.elf.read_bytes()).symbols]
    assert "read_command" not in symbols and "strlen" in symbols
    assert 400 <= result.stack.handlers <= 440
    assert result.stack.bytes >= result.stack.program + result.stack.handlers + result.stack.interrupt
    assert result.stack.interrupt == (2 * 36 if name == "qemu_m3" else 0)


def test_an_application_that_does_not_compile_is_the_users_fault(tmp_path: Path) -> None:
    board = load_board("qemu_m3")
    folder = tmp_path / "app"
    folder.mkdir()
    options = FirmwareOptions(app=folder)
    with pytest.raises(UserError, match="the application has no sources"):
        build_firmware(board, fake_model(board, tmp_path), tmp_path / "out", options)
    (folder / "main.c").write_text("int main(void) { return nothing; }\n")
    with pytest.raises(UserError, match="'nothing' undeclared") as caught:
        build_firmware(board, fake_model(board, tmp_path), tmp_path / "out", options)
    assert str(caught.value.where).endswith("main.c")


def test_time_passes(tmp_path: Path) -> None:
    board = load_board("microbit")
    result = build_firmware(board, fake_model(board, tmp_path), tmp_path, FirmwareOptions())
    with booted(board, result.runs) as (console, _):
        laps = [int(console.command("timestamp")[0].removeprefix("m-lap-us-")) for _ in range(20)]
    assert laps == sorted(laps) and laps[-1] > laps[0]
