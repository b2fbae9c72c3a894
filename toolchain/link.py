# SPDX-License-Identifier: Apache-2.0
"""Generated sources and objects to an ELF image whose stack has the size that its call graph needs."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from boards.board import Memory
from compiler.errors import UserError
from toolchain import sources
from toolchain.bundle import Bundle
from toolchain.elf.archive import check_libraries
from toolchain.elf.disassembly import Code, disassemble
from toolchain.elf.file import Elf, read_elf, section_bytes
from toolchain.files import write_text
from toolchain.fit import DoesNotFit, Overflow
from toolchain.gcc import GENERATED_FLAGS, Compiler
from toolchain.images.boot2 import checked_boot2, header_data
from toolchain.images.forms import form_of
from toolchain.layout import Layout, layouts
from toolchain.options import FirmwareOptions
from toolchain.site import Site
from toolchain.stack.bound import StackBound, stack_bound

SPARE_BYTES = 1 << 28
"""By how much regions grow for the link that shows the code, so that what does not fit can be measured too."""

OVERFLOW = re.compile(r"region `(\S+)' overflowed by (\d+) bytes?")
UNDEFINED = re.compile(r"^(?:\S*ld: )?(?:(?:\./)?(\S+:\d+): )?.*undefined references? to `([^']+)'", re.MULTILINE)
TWICE = re.compile(
    r"^(?:\S*ld: )?(?:\S+\.o:)?(?:\./)?(\S+): multiple definition of `([^']+)'; "
    r"(?:\S+\.o:)?(?:\./)?(\S+): first defined here",
    re.MULTILINE,
)
THREAD_LOCAL = re.compile(r"section `\.tdata\S*' from `(?:\S*/)?([^/']+)'")
LINKS = 3


@dataclass(frozen=True)
class Image:
    """A linked image: its file, what is in it, and the proof of its stack."""

    site: Site
    path: Path
    elf: Elf
    code: Code
    stack: StackBound
    layout: Layout


@dataclass(frozen=True)
class Inputs:
    """What every image of one build shares: the models' objects, the run-time and the user's own sources."""

    bundle: Bundle
    objects: tuple[Path, ...]
    libraries: tuple[Path, ...]
    options: FirmwareOptions

    def wrapped(self, site: Site) -> tuple[str, ...]:
        """Functions whose calls lead through a wrapper of the firmware's."""
        counted = self.bundle.first.kernels if self.options.counts_cycles else ()
        return counted or sources.checked_kernels(site, self.bundle, self.options)


def link_image(compiler: Compiler, site: Site, inputs: Inputs) -> Image:
    """Generate what depends on the site, then link with the first layout that fits.

    UserError where none does (how many bytes, which region, which other board would do), where symbols are missing,
    or where the stack cannot be bounded.
    """
    failures: list[tuple[Overflow, ...]] = []
    built: dict[bool, Path] = {}
    for layout in layouts(site, inputs.bundle, inputs.options):
        if layout.keeps_input not in built:
            built[layout.keeps_input] = _firmware(compiler, site, inputs, layout)
        objects = [_startup(compiler, site, inputs, layout), built[layout.keeps_input], *_form(compiler, site)]
        linked = _link_stable(compiler, site, inputs, layout, [*objects, *inputs.objects])
        if isinstance(linked, Image):
            return linked
        failures.append(linked)
    nearest = min(failures, key=lambda overflows: sum(overflow.bytes for overflow in overflows))
    raise DoesNotFit(site, inputs.bundle, nearest, inputs.options)


def _firmware(compiler: Compiler, site: Site, inputs: Inputs, layout: Layout) -> Path:
    text = sources.firmware(site, inputs.bundle, layout, inputs.options)
    return _compile(compiler, f"{site.file}.c", text, (*GENERATED_FLAGS, "-Iinclude"))


def _startup(compiler: Compiler, site: Site, inputs: Inputs, layout: Layout) -> Path:
    text = sources.startup(site, inputs.bundle, layout, inputs.options.application)
    return _compile(compiler, f"{site.file}_startup.S", text)


def _form(compiler: Compiler, site: Site) -> list[Path]:
    """What the boot ROM wants before and behind the vectors."""
    if site.twin:
        return []
    form = form_of(site.board)
    made = {
        name: _compile(compiler, f"{name}.S", sources.boot(name, site)) for name in (form.header, form.block) if name
    }
    if form.header is not None and form.checked:
        code = section_bytes(made[form.header].read_bytes(), ".boot_header")
        made[form.header] = _compile(compiler, "boot_header.S", header_data(checked_boot2(code)))
    return list(made.values())


def _compile(compiler: Compiler, name: str, text: str, flags: tuple[str, ...] = ()) -> Path:
    source = compiler.directory / name
    write_text(source, text)
    to = compiler.directory / f"{name.split('.')[0]}.o"
    compiler.compile(source, to, flags)
    return to


def _link_stable(
    compiler: Compiler, site: Site, inputs: Inputs, layout: Layout, objects: list[Path]
) -> Image | tuple[Overflow, ...]:
    """Link without a stack in regions larger than there are, measure the stack, link with that size until it stays.

    Overflowing regions are returned: by then the stack counts among what does not fit.
    """
    to = compiler.directory / f"{site.file}.elf"
    script = compiler.directory / f"{site.file}.ld"
    roomy = replace(site, memories=_grown(site.memories))
    size = 0
    for place in (roomy, *[site] * LINKS):
        layout_there = _in(place, layout)
        write_text(script, sources.linker_script(place, inputs.bundle, layout_there, size, inputs.options.application))
        result = compiler.link(objects, script, to, inputs.libraries, inputs.wrapped(site))
        if result.code != 0:
            to.unlink(missing_ok=True)
            return _overflows(result.text, inputs)
        elf = read_elf(to.read_bytes())
        code = disassemble(compiler, to)
        stack = stack_bound(elf, code, site.board, inputs.options.application == "app")
        if place is site and stack.bytes == size:
            check_libraries(to.with_suffix(".map").read_text(encoding="utf-8"), compiler.core)
            return Image(site, to, elf, code, stack, layout)
        size = stack.bytes
    raise RuntimeError(f"the stack of {site.file}.elf does not settle: {size} bytes after {LINKS} links")


def _grown(memories: tuple[Memory, ...]) -> tuple[Memory, ...]:
    """The regions with room to spare, moved so far that none runs into the next."""
    ordered = sorted(memories, key=lambda memory: memory.origin)
    return tuple(
        replace(memory, origin=memory.origin + SPARE_BYTES * ordered.index(memory), size=memory.size + SPARE_BYTES)
        for memory in memories
    )


def _in(site: Site, layout: Layout) -> Layout:
    """The layout in terms of the site's own regions."""
    banks = {bank.name: bank for bank in site.banks}
    constants = None if layout.constants_bank is None else banks[layout.constants_bank.name]
    arena = tuple(banks[bank.name] for bank in layout.arena_banks)
    return replace(layout, arena_banks=arena, constants_bank=constants)


def _overflows(text: str, inputs: Inputs) -> tuple[Overflow, ...]:
    twice = sorted({f"{name}: {place} and {first}" for place, name, first in TWICE.findall(text)})
    if twice:
        raise UserError(
            "the image has two functions or variables of one name",
            where="link",
            got="".join(f"\n    {line}" for line in twice),
            hint="give one of them another name, or make it static",
        )
    undefined = sorted({f"{_short(place)}: {name}" if place else name for place, name in UNDEFINED.findall(text)})
    if undefined:
        raise UserError(
            f"the image needs {len(undefined)} symbols that nothing defines",
            where="link",
            got=", ".join(undefined),
            allowed="the model's objects, the firmware's own sources, libgcc" + _libc(inputs),
            hint="there is no heap, no stdio and no operating system to call",
        )
    if ".tdata" in text:
        raise UserError(
            "a thread-local variable has an initial value",
            where="link",
            got="".join(f"\n    {line}" for line in sorted(set(THREAD_LOCAL.findall(text)))),
            hint="give it its value in main; rand of libc has such a one: use rand_r",
        )
    found = {name: int(count) for name, count in OVERFLOW.findall(text)}
    if not found:
        raise UserError("the image cannot be linked", where="link", got=text.strip())
    return tuple(Overflow(name, count) for name, count in sorted(found.items()))


def _short(place: str) -> str:
    """File and line; of the sources that a library was built from, which the user does not have, the name alone."""
    return f"{Path(place).name} of a library" if place.startswith("/") or "/newlib/" in place else place


def _libc(inputs: Inputs) -> str:
    return " and libc" if inputs.options.application == "app" else ""
