# SPDX-License-Identifier: Apache-2.0
"""Static libraries (ar archives) and whether they fit a core."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from boards.board import Core
from compiler.errors import UserError
from toolchain.elf.file import EF_RISCV_FLOAT_ABI, EF_RISCV_RVE, Elf, read_elf
from toolchain.gcc import CompileError, Compiler

MAGIC = b"!<arch>\n"


def members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each ELF member of an archive in the System V format. ValueError for another file."""
    data = archive.read_bytes()
    if not data.startswith(MAGIC):
        raise ValueError(f"{archive} is not an archive")
    at, names = len(MAGIC), b""
    while at + 60 <= len(data):
        name, size = data[at : at + 16].rstrip(), int(data[at + 48 : at + 58])
        body = data[at + 60 : at + 60 + size]
        if name == b"//":
            names = body
        elif body.startswith(b"\x7fELF"):
            if name.startswith(b"/"):
                name = names[int(name[1:]) :].split(b"/", 1)[0]
            yield name.rstrip(b"/").decode("ascii", "replace"), body
        at += 60 + size + size % 2


def abi_faults(elf: Elf, core: Core) -> list[str]:
    """What is wrong with an object for this core, in plain words: class, machine, float ABI, RV32E."""
    arm = core.triple.startswith("thumb")
    faults = []
    if elf.bits != 32:
        faults.append(f"it is {elf.bits}-bit, the core is 32-bit")
    if elf.machine != ("EM_ARM" if arm else "EM_RISCV"):
        faults.append(f"it is for machine {elf.machine}, the core is {'Arm' if arm else 'RISC-V'}")
        return faults
    if arm:
        hard = "-mfloat-abi=hard" in core.gcc_flags
        if elf.hard_float is not None and elf.hard_float != hard:
            faults.append(f"it passes floats in {_where(elf.hard_float)} registers, the core's ABI in {_where(hard)}")
        return faults
    wanted = {"ilp32": 0, "ilp32e": 0, "ilp32f": 2, "ilp32d": 4}[core.llvm_abi]
    if elf.flags & EF_RISCV_FLOAT_ABI != wanted:
        faults.append(f"its float ABI is {elf.flags & EF_RISCV_FLOAT_ABI}, the core's is {wanted} ({core.llvm_abi})")
    if bool(elf.flags & EF_RISCV_RVE) != (core.llvm_abi == "ilp32e"):
        faults.append("it and the core disagree on RV32E (16 registers)")
    return faults


def _where(hard: bool) -> str:
    return "float" if hard else "integer"


def pulled_members(map_text: str) -> dict[Path, set[str]]:
    """The archive members that a link took, by archive, from GNU ld's map."""
    found: dict[Path, set[str]] = {}
    head = map_text.split("Discarded input sections", 1)[0].split("Memory Configuration", 1)[0]
    for archive, member in re.findall(r"^(/\S+\.a)\(([^)]+)\)", head, re.MULTILINE):
        found.setdefault(Path(archive), set()).add(member)
    return found


def check_libraries(map_text: str, core: Core) -> None:
    """UserError unless every member that a link pulled in is built for the core's ABI."""
    for archive, wanted in sorted(pulled_members(map_text).items()):
        for name, data in members(archive):
            elf = read_elf(data) if name in wanted else None
            faults = abi_faults(elf, core) if elf and any(part.executable for part in elf.sections) else []
            if faults:
                raise UserError(
                    f"the library does not fit {core.name}: {'; '.join(faults)}",
                    where=f"{archive}({name})",
                    allowed=f"objects built with {' '.join(core.multilib_flags)}",
                    hint="the compiler's multilib table lacks this core: check multilib_flags in boards/cores.toml",
                )


def write_archive(compiler: Compiler, path: Path, objects: Sequence[Path]) -> Path:
    """A static library of objects, in the given order; the same objects give the same bytes."""
    path.unlink(missing_ok=True)
    members = [os.path.relpath(o, compiler.directory) for o in objects]
    result = compiler.run_binutil("ar", ["rcsD", os.path.relpath(path, compiler.directory), *members])
    if result.code != 0:
        raise CompileError(result.text)
    return path
