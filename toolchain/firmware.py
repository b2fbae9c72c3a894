# SPDX-License-Identifier: Apache-2.0
"""A board and a compiled model to checked firmware: everything between the compiler and the flash programmer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from boards.board import Board
from compiler.artifact import CompiledModel
from compiler.errors import UserError
from toolchain import sources
from toolchain.archive import write_archive
from toolchain.elf_checks import check_image
from toolchain.files import write_bytes, write_text
from toolchain.gcc import GENERATED_FLAGS, CompileError, Compiler, compiler_for
from toolchain.images import write_images
from toolchain.link import Image, Inputs, link_image
from toolchain.listings import write_listings
from toolchain.options import FirmwareOptions
from toolchain.report import report_of, write_report
from toolchain.site import board_site, twin_site
from toolchain.sizes import Sizes, sizes_of
from toolchain.stack import StackBound


@dataclass(frozen=True)
class FirmwareResult:
    """What was built. `runs` is the ELF for the emulator: the firmware itself where QEMU models the board, else the
    twin. `images` are all files for programmers, the map included."""

    elf: Path
    runs: Path
    header: Path
    report: Path
    images: tuple[Path, ...]
    sizes: Sizes
    stack: StackBound
    twin_stack: StackBound | None


def build_firmware(board: Board, model: CompiledModel, out: Path, options: FirmwareOptions) -> FirmwareResult:
    """Build everything below `out`: firmware.elf .bin .hex .map (.uf2), emulator.elf for boards that QEMU lacks,
    include/<prefix>.h, lib<prefix>.a, report.json, the generated sources, and LLVM IR and assembly for reading.

    UserError where the model does not fit, a tool is missing, or the user's own sources are at fault; the ELF files
    are then absent.
    """
    out.mkdir(parents=True, exist_ok=True)
    for stale in ("firmware.elf", "emulator.elf"):
        (out / stale).unlink(missing_ok=True)
    compiler = compiler_for(board.core, out.resolve())
    header = write_text(out / "include" / f"{model.prefix}.h", sources.header(model))
    inputs = _inputs(compiler, model, options)
    image = link_image(compiler, board_site(board, options.clock), inputs)
    check_image(image, model)
    twin: Image | None = None
    if not board.emulator.native:
        twin = link_image(compiler, twin_site(board), inputs)
        check_image(twin, model)
    sizes = sizes_of(image)
    report = report_of(image, model, sizes, options, compiler.version())
    write_report(out / "report.json", report)
    return FirmwareResult(
        elf=out / "firmware.elf",
        runs=out / ("emulator.elf" if twin else "firmware.elf"),
        header=header,
        report=out / "report.json",
        images=write_images(image, out),
        sizes=sizes,
        stack=image.stack,
        twin_stack=twin.stack if twin else None,
    )


def _inputs(compiler: Compiler, model: CompiledModel, options: FirmwareOptions) -> Inputs:
    objects = [write_bytes(compiler.directory / "objects" / f"{part.name}.o", part.data) for part in model.objects]
    write_archive(compiler, compiler.directory / f"lib{model.prefix}.a", objects)
    write_listings(model, compiler.directory)
    source = write_text(compiler.directory / "runtime.c", sources.runtime())
    runtime = compiler.directory / "runtime.o"
    compiler.compile(source, runtime, (*GENERATED_FLAGS, "-fno-builtin"))
    objects.append(runtime)
    libraries = [compiler.libgcc()]
    application = "console" if options.console == "uart" else "none"
    if options.app is not None:
        application = "app"
        objects += _application(compiler, options.app)
        libraries.append(compiler.libc())
    return Inputs(model, application, tuple(objects), tuple(libraries), options)


def _application(compiler: Compiler, directory: Path) -> list[Path]:
    """Compile the user's C sources. UserError with gcc's messages where they do not compile."""
    found = sorted(directory.glob("*.c"))
    if not found:
        raise UserError("the application has no C sources", where=str(directory), allowed="*.c")
    objects = []
    for source in found:
        to = compiler.directory / "app" / f"{source.stem}.o"
        to.parent.mkdir(exist_ok=True)
        prefix = f"-ffile-prefix-map={directory.resolve()}=app"
        try:
            compiler.compile(source.resolve(), to, ("-Iinclude", prefix, *compiler.libc_flags()))
        except CompileError as error:
            raise UserError("the application does not compile", where=str(source), got=str(error)) from error
        objects.append(to)
    return objects
