# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from boards.loader import load_board
from compiler.errors import UserError
from toolchain.elf.archive import abi_faults, check_libraries, members, pulled_members
from toolchain.elf.file import EF_RISCV_RVE, read_elf
from toolchain.files import write_text
from toolchain.gcc import compiler_for, run_tool

CORES = ("qemu_m0", "qemu_m3", "qemu_m4", "qemu_m4f", "qemu_m7", "qemu_m33", "qemu_m55",
         "qemu_rv32imac", "qemu_rv32imafc", "qemu_rv32ec")  # fmt: skip


@pytest.mark.parametrize("name", CORES)
def test_libraries_fit_their_core(name: str, tmp_path: Path) -> None:
    core = load_board(name).core
    compiler = compiler_for(core, tmp_path)
    for archive in (compiler.libgcc(), compiler.libc()):
        objects = [read_elf(data) for _, data in list(members(archive))[:40]]
        code = [elf for elf in objects if any(section.executable for section in elf.sections)]
        assert code
        for elf in code:
            assert abi_faults(elf, core) == []


def test_a_missing_compiler_names_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"sudo apt-get install gcc-riscv64-unknown-elf") as caught:
        compiler_for(load_board("qemu_rv32imac").core, tmp_path)
    assert "riscv64-unknown-elf-gcc is not installed" in str(caught.value)


def test_a_tool_without_room_is_no_fault_of_the_source(tmp_path: Path) -> None:
    tool = tmp_path / "cc"
    tool.write_text('#!/bin/sh\necho "error writing to $TMPDIR/cc1.s: No space left on device"; exit 1\n')
    tool.chmod(0o755)
    with pytest.raises(UserError, match="cc cannot write its files") as caught:
        run_tool([str(tool)], tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_a_fallback_to_another_architecture_is_refused(tmp_path: Path) -> None:
    core = load_board("qemu_rv32imac").core
    with_suffix = replace(core, multilib_flags=core.gcc_flags)
    with pytest.raises(UserError, match="has no libgcc for rv32imac"):
        compiler_for(with_suffix, tmp_path).libgcc()


def test_a_library_of_another_abi_is_refused(tmp_path: Path) -> None:
    soft, hard = load_board("qemu_rv32imac").core, load_board("qemu_rv32imafc").core
    archive = compiler_for(soft, tmp_path).libgcc()
    text = f"Archive member included\n\n{archive}(muldi3.o)\n      main.o (__mulsi3)\n\nDiscarded input sections\n"
    assert pulled_members(text) == {archive: {"muldi3.o"}}
    check_libraries(text, soft)
    with pytest.raises(UserError, match=r"float ABI is 0, the core's is 2 \(ilp32f\)"):
        check_libraries(text, hard)


def test_rv32e_is_told_from_rv32i(tmp_path: Path) -> None:
    small = load_board("qemu_rv32ec").core
    _, data = next(iter(members(compiler_for(small, tmp_path).libgcc())))
    assert read_elf(data).flags & EF_RISCV_RVE
    assert "disagree on RV32E" in abi_faults(read_elf(data), load_board("qemu_rv32imac").core)[0]
    assert "the core is Arm" in abi_faults(read_elf(data), load_board("qemu_m0").core)[0]


def test_files_are_whole_or_absent(tmp_path: Path) -> None:
    path = write_text(tmp_path / "deep" / "a.txt", "new\n")
    before = path.stat().st_mtime_ns
    write_text(path, "new\n")
    assert path.stat().st_mtime_ns == before
    write_text(path, "newer\n")
    assert path.read_text() == "newer\n" and [p.name for p in path.parent.iterdir()] == ["a.txt"]
