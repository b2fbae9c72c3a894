# SPDX-License-Identifier: Apache-2.0
"""What must hold of every image before it is flashed. All faults of an image are reported at once."""

from __future__ import annotations

import re
from collections.abc import Iterator

from boards.board import MemoryKind
from compiler.artifact import ArenaPart, CompiledModel
from compiler.errors import UserError
from toolchain.bundle import Bundle
from toolchain.elf.archive import abi_faults
from toolchain.elf.file import Elf
from toolchain.elf.forbidden import need_of
from toolchain.elf.instruction_sets import foreign_instructions
from toolchain.link import Image
from toolchain.site import Site

CONSTANT_ALIGNMENT = 16
LISTED = 8


def check_image(image: Image, bundle: Bundle) -> None:
    """UserError that lists every fault of the image; it must not be flashed."""
    core = image.site.board.core
    faults = [
        *symbol_faults(image.elf),
        *(f"ABI: {fault}" for fault in abi_faults(image.elf, core)),
        *foreign_instructions(core, image.code),
        *constant_faults(image.elf, bundle),
        *region_faults(image.elf, image.site),
        *(fault for model in bundle.models for fault in arena_faults(image.elf, image.site, model)),
        *stack_faults(image),
    ]
    if faults:
        shown = faults[:LISTED] + ([f"and {len(faults) - LISTED} more"] if len(faults) > LISTED else [])
        raise UserError(
            f"{image.path.name} fails its checks",
            where=f"{bundle.name} on {image.site.board.name}",
            got="".join(f"\n    {fault}" for fault in shown),
        )


def symbol_faults(elf: Elf) -> Iterator[str]:
    """Symbols that nothing defines, and functions that need an operating system."""
    for name in elf.undefined:
        yield f"symbol: {name} is undefined"
    for need in sorted({need for symbol in elf.symbols if (need := need_of(symbol.name))}):
        yield f"symbol: {need}"


def constant_faults(elf: Elf, bundle: Bundle) -> Iterator[str]:
    """The models' constants must lie at multiples of 16, as their kernels assume; parameter tables are words.

    A model's names may begin as another model's do: kws_input has kws_input_table_0, and kws has kws_table_0.
    """
    prefixes = "|".join(re.escape(model.prefix) for model in bundle.models)
    ours, table = re.compile(f"({prefixes})_.*"), re.compile(rf"({prefixes})_table_\d+")
    for symbol in elf.symbols:
        if symbol.section != ".constants" or symbol.kind != "STT_OBJECT" or not ours.fullmatch(symbol.name):
            continue
        alignment = 4 if table.fullmatch(symbol.name) else CONSTANT_ALIGNMENT
        if symbol.address % alignment:
            yield f"constants: {symbol.name} of {bundle.name} is at {symbol.address:#x}, not a multiple of {alignment}"


def region_faults(elf: Elf, site: Site) -> Iterator[str]:
    """Every section inside one region, stored bytes in flash and the rest in RAM."""
    for section in elf.sections:
        if not any(m.origin <= section.address and section.end <= m.end for m in site.memories):
            yield f"memory: {section.name}, {section.address:#x} to {section.end:#x}, is in no region of the board"
    flashes = [memory for memory in site.memories if memory.kind is not MemoryKind.RAM]
    for segment in elf.segments:
        end = segment.address + len(segment.data)
        if not any(m.origin <= segment.address and end <= m.end for m in flashes):
            yield f"memory: {segment.address:#x} to {end:#x} is to be stored outside flash"


def arena_faults(elf: Elf, site: Site, model: CompiledModel) -> Iterator[str]:
    """The arena whole, aligned and in RAM, and every planned tensor inside it, in one bank."""
    for part in model.arena_parts:
        if part.bytes:
            yield from part_faults(elf, site, part)
    yield from overlap_faults(model)
    for tensor in model.arena_tensors:
        end = tensor.offset + tensor.bytes
        if tensor.offset < 0 or end > model.arena_bytes:
            yield f"arena: {tensor.name} ends at {end} of {model.arena_bytes} bytes"
        if any(tensor.offset < wall < end for wall in model.arena_walls):
            yield f"arena: {tensor.name}, {tensor.offset} to {end}, lies in two banks"


def part_faults(elf: Elf, site: Site, part: ArenaPart) -> Iterator[str]:
    """A part of the arena whole, aligned and in one RAM bank."""
    try:
        arena = elf.symbol(part.symbol)
    except KeyError:
        yield f"arena: {part.symbol} is not in the image"
        return
    end = arena.address + part.bytes
    banks = [memory for memory in site.memories if memory.kind is MemoryKind.RAM]
    if not any(bank.origin <= arena.address and end <= bank.end for bank in banks):
        yield f"arena: {arena.address:#x} to {end:#x} is not inside one RAM bank"
    if arena.address % CONSTANT_ALIGNMENT:
        yield f"arena: it is at {arena.address:#x}, not a multiple of 16"
    if arena.size and arena.size < part.bytes:
        yield f"arena: it has {arena.size} bytes, the plan needs {part.bytes}"


def overlap_faults(model: CompiledModel) -> Iterator[str]:
    """Tensors that live at once and share bytes. One that is born where the other dies may: kernels say at which
    distances, and the planner has checked them."""
    tensors = sorted(model.arena_tensors, key=lambda tensor: (tensor.offset, tensor.name))
    for position, one in enumerate(tensors):
        for other in tensors[position + 1 :]:
            if other.offset >= one.offset + one.bytes:
                break
            at_once = one.first <= other.last and other.first <= one.last
            handed_over = one.last == other.first or other.last == one.first
            if at_once and not handed_over:
                moment = max(one.first, other.first)
                yield f"arena: {one.name} and {other.name} overlap at byte {other.offset}, dispatch {moment}"


def stack_faults(image: Image) -> Iterator[str]:
    """The reserved stack against its proof."""
    room = image.elf.symbol("__stack_top").address - image.elf.symbol("__stack_low").address
    if room < image.stack.bytes:
        yield f"stack: {room} bytes are reserved, {image.stack.bytes} are needed: {_path(image)}"


def _path(image: Image) -> str:
    return " -> ".join(f"{name} {depth}" for name, depth in image.stack.path)
