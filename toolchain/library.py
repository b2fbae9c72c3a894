# SPDX-License-Identifier: Apache-2.0
"""A built model as a library for the user's own project: CMake, Zephyr, PlatformIO and Arduino take the same folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boards.board import Core
from toolchain.files import write_bytes, write_text
from toolchain.templates import render

ARM_NEEDS = {
    "armv6m": ("defined(__thumb__)",),
    "armv7m": ("defined(__thumb2__)",),
    "dsp": ("defined(__thumb2__)", "defined(__ARM_FEATURE_DSP)"),
    "mve": ("defined(__thumb2__)", "defined(__ARM_FEATURE_MVE)"),
}
"""Of each instruction set, what Arm's C language extensions (ACLE) define where a compiler may use it."""

RISCV_NEEDS = {
    "ilp32": ("defined(__riscv_float_abi_soft)", "!defined(__riscv_32e)"),
    "ilp32e": ("defined(__riscv_32e)",),
    "ilp32f": ("defined(__riscv_float_abi_single)",),
    "ilp32d": ("defined(__riscv_float_abi_double)",),
}
"""Of each ABI, what the RISC-V C API defines."""


@dataclass(frozen=True)
class Exported:
    """A model of the library: names as in report.json."""

    name: str
    prefix: str
    sha256: str
    input_symbol: str
    output_symbol: str


def write_library(folder: Path, core: Core, report: Mapping[str, Any]) -> Path:
    """Write <folder>/library from what a build left in `folder`; returns it. What was there before goes."""
    library, part = folder / "library", folder / ".library.part"
    for old in (library, part):
        shutil.rmtree(old, ignore_errors=True)
    models = [_exported(model) for model in (report, *report["more_models"])]
    name = models[0].prefix
    place = archive_folder(core)
    for model in models:
        write_bytes(part / "src" / f"{model.prefix}.h", (folder / "include" / f"{model.prefix}.h").read_bytes())
        write_bytes(part / place / f"lib{model.prefix}.a", (folder / f"lib{model.prefix}.a").read_bytes())
    values = {
        "name": name,
        "models": models,
        "board": report["board"],
        "core": core,
        "place": place,
        "needs": tuple(_needs(core)),
    }
    for target, template in _files(name):
        write_text(part / target, render(f"export/{template}", values))
    part.rename(library)
    return library


def archive_folder(core: Core) -> str:
    """Where the archives are in the library: where Arduino's builder looks for precompiled ones, src/{build.mcu} and
    below that {build.fpu}-{build.float-abi} (Arduino library specification, precompiled binaries)."""
    flags = dict(flag.removeprefix("-m").partition("=")[::2] for flag in core.gcc_flags)
    place = f"src/{flags.get('cpu', core.name)}"
    return f"{place}/{flags['fpu']}-{flags['float-abi']}" if "fpu" in flags else place


def _exported(model: Mapping[str, Any]) -> Exported:
    head = model["model"]
    return Exported(
        head["name"], head["prefix"], head["sha256"], model["inputs"][0]["symbol"], model["outputs"][0]["symbol"]
    )


def _files(name: str) -> Iterator[tuple[str, str]]:
    """Each file of the glue, with its template."""
    for path in ("CMakeLists.txt", "README.md", "library.json", "library.properties", "platformio.py"):
        yield path, path
    for path in ("module.yml", "CMakeLists.txt", "Kconfig"):
        yield f"zephyr/{path}", f"zephyr/{path}"
    yield f"src/{name}_abi.c", "abi.c"
    yield f"examples/{name}/{name}.ino", "example.ino"


def _needs(core: Core) -> Iterator[str]:
    """Preprocessor conditions that hold where the archives fit the project's compiler flags."""
    if core.triple.startswith("thumb"):
        yield from ARM_NEEDS[core.isa]
        yield ("" if "-mfloat-abi=hard" in core.gcc_flags else "!") + "defined(__ARM_PCS_VFP)"
        return
    yield "defined(__riscv) && __riscv_xlen == 32"
    yield from RISCV_NEEDS[core.llvm_abi]
    if core.isa == "rv32im":
        yield "defined(__riscv_mul)"
