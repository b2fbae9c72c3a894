# SPDX-License-Identifier: Apache-2.0
"""An ELF file as the checks read it: headers, sections, symbols, loaded bytes."""

from __future__ import annotations

import io
from dataclasses import dataclass

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import ARMAttributesSection, SymbolTableSection

ERASED = b"\xff"
EF_ARM_ABI_FLOAT_HARD = 0x400
EF_RISCV_RVC, EF_RISCV_FLOAT_ABI, EF_RISCV_RVE = 0x1, 0x6, 0x8


@dataclass(frozen=True)
class Section:
    """A section that takes memory. `load` is where its bytes are stored, None if it has none."""

    name: str
    address: int
    size: int
    load: int | None
    align: int
    executable: bool

    @property
    def end(self) -> int:
        return self.address + self.size


@dataclass(frozen=True)
class Symbol:
    """A defined symbol; `address` without Arm's Thumb bit. `kind` is STT_FUNC, STT_OBJECT, STT_NOTYPE."""

    name: str
    address: int
    size: int
    kind: str
    section: str


@dataclass(frozen=True)
class Segment:
    """Bytes at the address where they are stored."""

    address: int
    data: bytes
    runs_at: int


@dataclass(frozen=True)
class Elf:
    """A linked image or an object. `hard_float` is Arm's Tag_ABI_VFP_args: None where the object does not say, as
    assembly does not, and on RISC-V, where `flags` says it."""

    machine: str
    bits: int
    flags: int
    hard_float: bool | None
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    undefined: tuple[str, ...]
    segments: tuple[Segment, ...]

    def section(self, name: str) -> Section | None:
        """The section of that name, if it takes memory."""
        return next((section for section in self.sections if section.name == name), None)

    def symbol(self, name: str) -> Symbol:
        """The symbol of that name; KeyError if there is none."""
        for symbol in self.symbols:
            if symbol.name == name:
                return symbol
        raise KeyError(name)

    def constant_word(self, address: int) -> int | None:
        """As `word`, of what no program can change: None for what start-up copies to RAM."""
        kept = [s for s in self.segments if s.address == s.runs_at and s.runs_at <= address < s.runs_at + len(s.data)]
        return self.word(address) if kept else None

    def word(self, address: int) -> int | None:
        """The 32-bit word that is loaded at `address`; None outside the image."""
        for segment in self.segments:
            at = address - segment.runs_at
            if at >= 0 and at + 4 <= len(segment.data):
                return int.from_bytes(segment.data[at : at + 4], "little")
        return None


def read_elf(data: bytes) -> Elf:
    """Parse an ELF file. elftools.common.exceptions.ELFError for anything else."""
    file = ELFFile(io.BytesIO(data))
    machine = file["e_machine"]
    segments = tuple(
        Segment(part["p_paddr"], part.data(), part["p_vaddr"])
        for part in file.iter_segments()
        if part["p_type"] == "PT_LOAD" and part["p_filesz"] > 0
    )
    names = [section.name for section in file.iter_sections()]
    symbols: list[Symbol] = []
    undefined: list[str] = []
    for table in file.iter_sections():
        if not isinstance(table, SymbolTableSection):
            continue
        for entry in table.iter_symbols():
            index, kind = entry["st_shndx"], entry["st_info"]["type"]
            if index == "SHN_UNDEF":
                if entry.name:
                    undefined.append(entry.name)
            elif entry.name and kind in ("STT_FUNC", "STT_OBJECT", "STT_NOTYPE"):
                address = entry["st_value"]
                if kind == "STT_FUNC" and machine == "EM_ARM":
                    address &= ~1
                section = names[index] if isinstance(index, int) else ""
                symbols.append(Symbol(entry.name, address, entry["st_size"], kind, section))
    sections = tuple(
        Section(
            name=section.name,
            address=section["sh_addr"],
            size=section["sh_size"],
            load=None if section["sh_type"] == "SHT_NOBITS" else _load_address(section["sh_addr"], file),
            align=section["sh_addralign"],
            executable=bool(section["sh_flags"] & 4),
        )
        for section in file.iter_sections()
        if section["sh_flags"] & 2 and section["sh_size"] > 0
    )  # fmt: skip
    flags = file["e_flags"]
    return Elf(
        machine=machine,
        bits=file.elfclass,
        flags=flags,
        hard_float=_arm_hard_float(file),
        sections=sections,
        symbols=tuple(sorted(symbols, key=lambda symbol: (symbol.address, symbol.name))),
        undefined=tuple(sorted(set(undefined))),
        segments=segments,
    )


def flat(elf: Elf) -> tuple[int, bytes]:
    """The lowest stored address and all bytes from there on; gaps read as erased flash."""
    segments = sorted(elf.segments, key=lambda segment: segment.address)
    origin = segments[0].address
    data = bytearray()
    for segment in segments:
        data += ERASED * (segment.address - origin - len(data))
        data += segment.data
    return origin, bytes(data)


def section_bytes(data: bytes, name: str) -> bytes:
    """The bytes of a section; KeyError if there is none."""
    section = ELFFile(io.BytesIO(data)).get_section_by_name(name)
    if section is None:
        raise KeyError(name)
    return bytes(section.data())


def _load_address(address: int, file: ELFFile) -> int | None:
    for part in file.iter_segments():
        if part["p_type"] == "PT_LOAD" and part["p_vaddr"] <= address < part["p_vaddr"] + max(part["p_filesz"], 1):
            return int(part["p_paddr"] + address - part["p_vaddr"])
    return None


def _arm_hard_float(file: ELFFile) -> bool | None:
    section = file.get_section_by_name(".ARM.attributes")
    if not isinstance(section, ARMAttributesSection):
        return None
    for subsection in section.iter_subsections():
        for part in subsection.iter_subsubsections():
            for attribute in part.iter_attributes():
                if attribute.tag == "TAG_ABI_VFP_ARGS":
                    return bool(attribute.value == 1)
    return None
