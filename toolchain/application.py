# SPDX-License-Identifier: Apache-2.0
"""The user's own sources: found, compiled, and checked for calls that nothing on a bare board answers."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from compiler.errors import UserError
from toolchain.elf.forbidden import need_of
from toolchain.gcc import CompileError, Compiler

C_PLUS_PLUS = (".cc", ".cpp", ".cxx")
SOURCES = (".c", *C_PLUS_PLUS, ".S")

C_PLUS_PLUS_FLAGS = (
    "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fno-use-cxa-atexit", "-fno-unwind-tables",
)  # fmt: skip
"""Nothing unwinds, nothing exits, and there are no threads."""


def application_sources(directory: Path) -> tuple[Path, ...]:
    """The sources below a directory, sorted; hidden files and folders are left out."""
    return tuple(path for path in application_files(directory) if path.suffix in SOURCES)


def application_files(directory: Path) -> tuple[Path, ...]:
    """Every file below a directory that a build may depend on."""
    found = (path for path in directory.rglob("*") if path.is_file())
    return tuple(sorted(path for path in found if not any(p[0] == "." for p in path.relative_to(directory).parts)))


def compile_application(compiler: Compiler, directory: Path) -> list[Path]:
    """Compile the user's sources, with debug information so that messages of the linker name file and line.

    UserError with gcc's messages where they do not compile, and for calls that need a heap, stdio or a system.
    """
    found = application_sources(directory)
    if not found:
        raise UserError("the application has no sources", where=str(directory), allowed="*" + ", *".join(SOURCES))
    objects = []
    for source in found:
        to = compiler.directory / "app" / f"{source.relative_to(directory)}.o"
        to.parent.mkdir(parents=True, exist_ok=True)
        try:
            compiler.compile(source.resolve(), to, _flags(compiler, directory, source))
        except CompileError as error:
            said = "".join(f"\n    {line}" for line in str(error).splitlines())
            raise UserError("the application does not compile", where=str(source), got=said) from error
        objects.append(to)
    faults = [fault for to in objects for fault in _forbidden_calls(compiler, to)]
    if faults:
        raise UserError(
            "the application calls what a bare board does not have",
            where=str(directory),
            got="".join(f"\n    {fault}" for fault in faults),
            hint="give arrays a constant size, and write through firmware.h",
        )
    return objects


def _flags(compiler: Compiler, directory: Path, source: Path) -> tuple[str, ...]:
    given = os.path.relpath(directory.resolve(), compiler.directory)
    prefixes = [f"-ffile-prefix-map={path}={directory.resolve().name}" for path in (directory.resolve(), given)]
    plus = C_PLUS_PLUS_FLAGS if source.suffix in C_PLUS_PLUS else ()
    # errno is the one thread's where libc has it so; without this its place would be looked up in a table of offsets.
    return ("-g", "-ftls-model=local-exec", "-Iinclude", f"-I{given}", *prefixes, *plus, *compiler.libc_flags())


def _forbidden_calls(compiler: Compiler, path: Path) -> Iterator[str]:
    """`file:line: name needs ...` for each place of an object that refers to what is not there."""
    file = ELFFile(io.BytesIO(path.read_bytes()))
    seen: set[str] = set()
    for relocations in file.iter_sections():
        if not isinstance(relocations, RelocationSection):
            continue
        section, symbols = file.get_section(relocations["sh_info"]), file.get_section(relocations["sh_link"])
        if section.name.startswith(".debug") or not isinstance(symbols, SymbolTableSection):
            continue
        for entry in relocations.iter_relocations():
            symbol = symbols.get_symbol(entry["r_info_sym"])
            need = need_of(symbol.name) if symbol["st_shndx"] == "SHN_UNDEF" else None
            if need is not None:
                fault = f"{_line(compiler, path, section.name, entry['r_offset'])}: {need}"
                if fault not in seen:
                    yield fault
                seen.add(fault)


def _line(compiler: Compiler, path: Path, section: str, offset: int) -> str:
    """File and line of a place in an object."""
    name = os.path.relpath(path, compiler.directory)
    result = compiler.run_binutil("addr2line", ["-e", name, "-j", section, hex(offset)])
    place = result.text.strip().split(" (discriminator")[0]
    place = place.removeprefix("./")
    return place if result.code == 0 and not place.startswith("?") else f"{name}, {section}"
