# SPDX-License-Identifier: Apache-2.0
"""Addresses of an ELF file's symbols."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection


@dataclass(frozen=True)
class Symbol:
    """Address (without the Thumb bit) and size in bytes."""

    address: int
    size: int


class Symbols:
    """The symbol table of a linked ELF file."""

    def __init__(self, elf: Path) -> None:
        self._elf = elf
        self._found: dict[str, Symbol] = {}
        with elf.open("rb") as stream:
            table = ELFFile(stream).get_section_by_name(".symtab")
            for symbol in table.iter_symbols() if isinstance(table, SymbolTableSection) else ():
                if symbol.name and symbol["st_shndx"] != "SHN_UNDEF":
                    function = symbol["st_info"]["type"] == "STT_FUNC"
                    self._found[symbol.name] = Symbol(symbol["st_value"] & (~1 if function else ~0), symbol["st_size"])

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def __getitem__(self, name: str) -> Symbol:
        """KeyError names the file too: the toolchain, not the user, is at fault."""
        if name not in self._found:
            raise KeyError(f"{self._elf} does not define {name}")
        return self._found[name]


def code_range(elf: Path) -> tuple[int, int]:
    """Where the sections with code start and end."""
    with elf.open("rb") as stream:
        sections = [s.header for s in ELFFile(stream).iter_sections() if s["sh_flags"] & SH_FLAGS.SHF_EXECINSTR]
    return min(s["sh_addr"] for s in sections), max(s["sh_addr"] + s["sh_size"] for s in sections)
