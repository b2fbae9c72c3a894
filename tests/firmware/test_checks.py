# SPDX-License-Identifier: Apache-2.0
"""Each check of an image, broken on purpose: the build must stop with a message that names the fault."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from boards.board import Board
from boards.loader import board_names, load_board
from compiler.artifact import ArenaTensor, CompiledModel
from compiler.errors import UserError
from tests.firmware.fake import fake_model
from toolchain import sources
from toolchain.elf.archive import check_libraries, write_archive
from toolchain.firmware import build_firmware
from toolchain.fit import DoesNotFit
from toolchain.gcc import Compiler, compiler_for
from toolchain.options import FirmwareOptions

OTHER = '__asm__ volatile(".option push\\n .option arch, CODE\\n .option pop");'

BROKEN = {
    "float on a soft-float core": (
        "qemu_m4",
        '__asm__ volatile(".fpu fpv4-sp-d16\\n vadd.f32 s0, s0, s0\\n .fpu softvfp");',
        "",
        "a float instruction on cortex-m4: 0x",
    ),
    "float on RV32IMAC": (
        "qemu_rv32imac",
        OTHER.replace("CODE", "+f\\n fadd.s fa0, fa0, fa0"),
        "",
        "a float instruction",
    ),
    "x16 on RV32E": ("qemu_rv32ec", '__asm__ volatile(".insn 0x00080813");', "", "a register above x15"),
    "mul on RV32E": ("qemu_rv32ec", OTHER.replace("CODE", "+m\\n mul a0, a0, a0"), "", "a multiplication or division"),
    "Armv7-M on Armv6-M": ("qemu_m0", '__asm__ volatile(".inst.w 0xfb90f0f0");', "", "an Armv7-M instruction"),
    "cbz on Armv6-M": ("qemu_m0", '__asm__ volatile(".inst.n 0xb100");', "", "an Armv7-M instruction"),
    "DSP on Cortex-M3": ("qemu_m3", '__asm__ volatile(".inst.w 0xfb20f000");', "", "a DSP instruction"),
    "undefined symbol": ("qemu_m4", "nowhere();", "", "got: nowhere, printf"),
    "stdio": (
        "qemu_m4",
        "fake_dispatch = puts((void *)fake_dispatch);",
        "HIDDEN int puts(const void *s) { return s != 0; }",
        "symbol: puts needs",
    ),
    "heap": (
        "qemu_rv32imac",
        "fake_dispatch = (uint32_t)malloc(fake_dispatch);",
        "HIDDEN void *malloc(unsigned n) { return n ? fake_arena : 0; }",
        "malloc needs",
    ),
    "unaligned constant": (
        "qemu_m4",
        "fake_dispatch = fake_odd[fake_dispatch];",
        'const uint8_t fake_odd[5] __attribute__((section(".rodata.fake_weights"), aligned(2))) = {1, 2};'
        'const uint8_t fake_odder[5] __attribute__((section(".rodata.fake_weights"), aligned(1), used)) = {1};',
        "constants: fake_odd",
    ),
    "constructor": (
        "qemu_m4",
        "",
        "__attribute__((constructor, used)) static void early(void) { fake_dispatch = 0; }",
        ".no_constructors",
    ),
    "recursion": ("qemu_m4", "deeper(3);", "", "functions call themselves"),
    "indirect call": ("qemu_rv32imac", "", "", "an indirect call"),
    "unbounded frame": ("qemu_m4", "", "", "sp takes a value that is not known"),
}

DECLARATIONS = """
void nowhere(void); int printf(const char *, ...); int puts(const void *); void *malloc(unsigned);
extern const uint8_t fake_odd[];
"""


def refusal(board: Board, model: CompiledModel, out: Path) -> str:
    with pytest.raises(UserError) as caught:
        build_firmware(board, model, out, FirmwareOptions(alternatives=tuple(map(load_board, board_names()))))
    assert not (out / "firmware.bin").exists() and not (out / "report.json").exists()
    return str(caught.value)


@pytest.mark.parametrize("fault", sorted(BROKEN))
def test_refuses_an_image_with(tmp_path: Path, fault: str) -> None:
    name, body, extra, message = BROKEN[fault]
    body = {
        "undefined symbol": 'nowhere(); printf("");',
        "recursion": "fake_dispatch = deeper(fake_dispatch);",
        "indirect call": "hooks[fake_dispatch & 1]();",
        "unbounded frame": "fill(fake_dispatch);",
    }.get(fault, body)
    before = {
        "recursion": "static HIDDEN uint32_t deeper(uint32_t n) { "
        "volatile uint32_t m = n; return n > 1 ? deeper(n - 1) ^ (m * deeper(n - 2)) : n; }",
        "indirect call": "void (*volatile hooks[2])(void);",
        "unbounded frame": "extern void take(volatile char *);"
        "HIDDEN void take(volatile char *c) { *c = 1; }"
        "static HIDDEN void fill(uint32_t n) { volatile char room[n]; take(room); }",
    }.get(fault, "")
    board = load_board(name)
    model = fake_model(board, tmp_path, body=body, extra=extra, before=DECLARATIONS + before, flags=("-fno-builtin",))
    assert message in refusal(board, model, tmp_path)


def test_recursion_that_the_compiler_turned_into_a_loop_is_none(tmp_path: Path) -> None:
    board = load_board("qemu_m4")
    before = "static HIDDEN uint32_t sum(uint32_t n, uint32_t s) { return n ? sum(n - 1, s + n) : s; }"
    model = fake_model(board, tmp_path, body="fake_dispatch = sum(fake_dispatch, 0);", before=before)
    assert build_firmware(board, model, tmp_path, FirmwareOptions()).stack.bytes > 0


@pytest.mark.parametrize(("region", "kind"), (("FLASH", "flash"), ("RAM", "ram")))
def test_one_byte_too_many_is_one_byte_too_many(tmp_path: Path, region: str, kind: str) -> None:
    board = load_board("qemu_m3")
    model = fake_model(board, tmp_path)
    sizes = build_firmware(board, model, tmp_path / "good", FirmwareOptions()).sizes
    total = sizes.flash.total if kind == "flash" else sizes.ram.total
    for size in (total, total - 1):
        memories = tuple(replace(m, size=size) if m.name == region else m for m in board.memories)
        small = replace(board, memories=memories)
        if size == total:
            assert build_firmware(small, model, tmp_path / "fits", FirmwareOptions()).elf.exists()
        else:
            text = refusal(small, model, tmp_path / "over")
            assert f"1 byte too many in {region} (of {size};" in text
            assert "board=" in text or "console=none" in text


def test_a_model_far_too_large_names_a_board_that_takes_it(tmp_path: Path) -> None:
    board = load_board("ch32v003")
    text = refusal(board, fake_model(board, tmp_path, arena=60000), tmp_path)
    assert "bytes too many in RAM (of 2048; arena 60000)" in text
    assert "board=" in text and "console=none" not in text


def test_a_smaller_console_is_told_of_where_it_fits(tmp_path: Path) -> None:
    board = load_board("ch32v003")
    used = build_firmware(board, fake_model(board, tmp_path), tmp_path, FirmwareOptions(console="uart")).sizes.ram
    model = fake_model(board, tmp_path, arena=board.ram.size - used.total + used.arena + 16)
    with pytest.raises(DoesNotFit, match="console=compact has fewer commands"):
        build_firmware(board, model, tmp_path, FirmwareOptions(console="uart"))
    assert build_firmware(board, model, tmp_path, FirmwareOptions(console="compact")).elf.exists()


@pytest.mark.parametrize(
    ("name", "options", "idea"),
    (
        ("ch32v003", FirmwareOptions(weights="ram"), "weights=inline leaves the constants in flash"),
        ("f4discovery", FirmwareOptions(arena="CCM"), "without arena= it may go to the other banks, too"),
        ("ch32v003", FirmwareOptions(console="none"), "a smaller model"),
        ("ch32v003", FirmwareOptions(), "console=none leaves the console out"),
    ),
)
def test_what_does_not_fit_is_told_what_would_help(
    tmp_path: Path, name: str, options: FirmwareOptions, idea: str
) -> None:
    board = load_board(name)
    bank = next(m for m in board.memories if m.name == (options.arena or "RAM"))
    with pytest.raises(DoesNotFit) as caught:
        build_firmware(board, fake_model(board, tmp_path, arena=bank.size + 64), tmp_path, options)
    assert idea == (caught.value.hint or "").split("; ")[0]


def test_the_arena_plan_is_verified_again(tmp_path: Path) -> None:
    board = load_board("qemu_m3")
    model = fake_model(board, tmp_path)
    outside = replace(model, arena_tensors=(*model.arena_tensors, ArenaTensor("late", 48, 17, 0, 1)))
    assert "arena: late ends at 65 of 64 bytes" in refusal(board, outside, tmp_path)
    overlapping = replace(model, arena_tensors=(*model.arena_tensors, ArenaTensor("in_the_way", 16, 8, 0, 2)))
    assert "arena: image and in_the_way overlap at byte 16, dispatch 0" in refusal(board, overlapping, tmp_path)
    handed_over = replace(model, arena_tensors=(*model.arena_tensors, ArenaTensor("heir", 16, 8, 1, 2)))
    assert build_firmware(board, handed_over, tmp_path / "handed_over", FirmwareOptions()).elf.exists()
    promised = replace(model, arena_bytes=80)
    assert "the arena of fake was not linked" in refusal(board, promised, tmp_path)


def test_a_stack_smaller_than_its_proof_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = load_board("qemu_m3")
    script = sources.linker_script

    def smaller(*given: Any) -> str:
        return re.sub(r"(__stack_low = \.;\s*\. \+= )\d+", r"\g<1>16", script(*given))

    monkeypatch.setattr(sources, "linker_script", smaller)
    text = refusal(board, fake_model(board, tmp_path), tmp_path)
    assert re.search(r"stack: \d+ bytes are reserved, \d+ are needed: Reset_Handler \d+ -> main", text)


def test_a_missing_soft_float_helper_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = load_board("qemu_rv32imac")
    body = "fake_dispatch = (uint32_t)((float)fake_dispatch * 2.5f);"
    model = fake_model(board, tmp_path, body=body)
    assert build_firmware(board, model, tmp_path / "good", FirmwareOptions()).elf.exists()
    (tmp_path / "empty.a").write_bytes(b"!<arch>\n")
    monkeypatch.setattr(Compiler, "libgcc", lambda _: tmp_path / "empty.a")
    assert "got: __fixunssfsi, __floatunsisf, __mulsf3" in refusal(board, model, tmp_path)


@pytest.mark.parametrize(
    ("name", "flags", "fault"),
    (
        ("qemu_m3", ("-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"), "passes floats in float"),
        ("qemu_rv32imac", ("-march=rv32imafc", "-mabi=ilp32f"), "float ABI is 2, the core's is 0 (ilp32)"),
        ("qemu_rv32ec", ("-march=rv32imac", "-mabi=ilp32"), "disagree on RV32E"),
    ),
)
def test_a_library_of_another_multilib_is_refused(
    tmp_path: Path, name: str, flags: tuple[str, ...], fault: str
) -> None:
    """A libgcc that was built for another core: the compiler's table of multilibs may give one without a word."""
    board = load_board(name)
    (tmp_path / "helper.c").write_text("float half(float x) { return x / 2; }\n")
    subprocess.run([board.core.gcc, *flags, "-c", "helper.c"], cwd=tmp_path, check=True)
    archive = write_archive(compiler_for(board.core, tmp_path), tmp_path / "libgcc.a", [tmp_path / "helper.o"])
    with pytest.raises(UserError, match="the library does not fit") as caught:
        check_libraries(f"{archive}(helper.o)\n", board.core)
    assert fault in str(caught.value)
