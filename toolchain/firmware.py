# SPDX-License-Identifier: Apache-2.0
"""A board and a compiled model to checked firmware: everything between the compiler and the flash programmer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from boards.board import Board
from compiler.artifact import CompiledModel
from toolchain import sources
from toolchain.application import compile_application
from toolchain.bundle import Bundle
from toolchain.elf.archive import write_archive
from toolchain.elf.checks import check_image
from toolchain.elf.sizes import Sizes, sizes_of
from toolchain.files import write_bytes, write_text
from toolchain.gcc import GENERATED_FLAGS, Compiler, compiler_for
from toolchain.images.files import write_images
from toolchain.link import Image, Inputs, link_image
from toolchain.listings import write_listings
from toolchain.options import FirmwareOptions
from toolchain.report.contents import report_of, write_report
from toolchain.site import board_site, twin_site
from toolchain.stack.bound import StackBound


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


def build_firmware(
    board: Board, model: CompiledModel, out: Path, options: FirmwareOptions, more: tuple[CompiledModel, ...] = ()
) -> FirmwareResult:
    """Build everything below `out`, with the models `more` in the same image: firmware.elf .bin .hex .map (.uf2),
    emulator.elf for boards that QEMU lacks, include/<prefix>.h, lib<prefix>.a, report.json, the generated sources,
    and LLVM IR and assembly for reading.

    UserError where the model does not fit, a tool is missing, or the user's own sources are at fault; the ELF files
    are then absent.
    """
    options = options.on(board)
    out.mkdir(parents=True, exist_ok=True)
    for stale in ("firmware.elf", "emulator.elf"):
        (out / stale).unlink(missing_ok=True)
    compiler = compiler_for(board.core, out.resolve())
    bundle = Bundle((model, *more))
    header, *_ = (write_text(out / "include" / f"{m.prefix}.h", sources.header(m, bundle)) for m in bundle.models)
    inputs = _inputs(compiler, bundle, options)
    image = link_image(compiler, board_site(board, options.clock), inputs)
    check_image(image, bundle)
    twin: Image | None = None
    if not board.emulator.native:
        twin = link_image(compiler, twin_site(board), inputs)
        check_image(twin, bundle)
    sizes = sizes_of(image, bundle)
    report = report_of(image, bundle, sizes, options, compiler.version())
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


def _inputs(compiler: Compiler, bundle: Bundle, options: FirmwareOptions) -> Inputs:
    directory = compiler.directory
    built = {part.name: write_bytes(directory / "objects" / f"{part.name}.o", part.data) for part in bundle.objects}
    for model in bundle.models:
        write_archive(compiler, directory / f"lib{model.prefix}.a", [built[part.name] for part in model.objects])
        write_listings(model, directory)
    source = write_text(directory / "runtime.c", sources.runtime())
    runtime = directory / "runtime.o"
    compiler.compile(source, runtime, (*GENERATED_FLAGS, "-fno-builtin"))
    objects = [*built.values(), runtime]
    libraries = [compiler.libgcc()]
    if options.app is not None:
        write_text(directory / "include" / "firmware.h", sources.interface())
        objects += compile_application(compiler, options.app)
        libraries += [compiler.libc(), compiler.libm()]
    return Inputs(bundle, tuple(objects), tuple(libraries), options)
