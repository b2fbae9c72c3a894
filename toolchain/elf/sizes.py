# SPDX-License-Identifier: Apache-2.0
"""What an image takes of flash and RAM, from its ELF."""

from __future__ import annotations

from dataclasses import dataclass

from boards.board import Memory, MemoryKind
from toolchain.bundle import Bundle
from toolchain.link import Image


@dataclass(frozen=True)
class FlashUse:
    """Bytes. `code` is all that is not the model's constants: vectors, code, strings, initial values of data."""

    code: int
    constants: int
    total: int
    limit: int


@dataclass(frozen=True)
class RamUse:
    """Bytes. `static` is what is neither arena nor stack, with what aligning them leaves free; `limit` counts every
    bank."""

    arena: int
    static: int
    stack: int
    total: int
    limit: int


@dataclass(frozen=True)
class Sizes:
    flash: FlashUse
    ram: RamUse


def sizes_of(image: Image, bundle: Bundle) -> Sizes:
    """The image's use of its site's memories."""
    limits = {
        is_ram: sum(memory.size for memory in image.site.memories if (memory.kind is MemoryKind.RAM) == is_ram)
        for is_ram in (False, True)
    }
    flash = sum(len(segment.data) for segment in image.elf.segments)
    constants = _size(image, ".constants")
    arena = sum(_size(image, f".{section.name}") for section in image.layout.arena_sections(bundle))
    stack = _size(image, ".stack")
    ram = sum(_used(image, memory) for memory in image.site.memories if memory.kind is MemoryKind.RAM)
    return Sizes(
        FlashUse(flash - constants, constants, flash, limits[False]),
        RamUse(arena, ram - arena - stack, stack, ram, limits[True]),
    )


def _used(image: Image, memory: Memory) -> int:
    """The bytes of a bank up to the end of the last section in it."""
    ends = (s.address + s.size for s in image.elf.sections if s.size and memory.origin <= s.address < memory.end)
    return max(ends, default=memory.origin) - memory.origin


def _size(image: Image, name: str) -> int:
    section = image.elf.section(name)
    return section.size if section else 0
