# SPDX-License-Identifier: Apache-2.0
"""Runs compiled code under QEMU without the product's firmware: one model or one layer, inputs in, outputs out.

Kernels are tested by this, so that a fault is theirs and not the console's or the start-up's.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boards.board import Board
from boards.loader import load_board
from compiler.artifact import CompiledModel, Port
from compiler.codegen.objects import Accessor, ArenaAddress, BoundCall, Program, generate_objects
from compiler.graph import DType
from compiler.isa import load_isa
from compiler.kernels.kernel import Lowered, Place, Role
from toolchain.target import target_of

Array = NDArray[Any]
_SOURCE = Path(__file__).parent / "bare" / "main.c"
_LINK = """MEMORY {{ FLASH (rx) : ORIGIN = {flash.origin:#x}, LENGTH = {flash.size:#x}
 RAM (rwx) : ORIGIN = {ram.origin:#x}, LENGTH = {ram.size:#x} }}
ENTRY(_start)
SECTIONS {{
 .text : {{ KEEP(*(.vectors)) *(.text*) *(.rodata*) *(.srodata*) *(.data*) *(.sdata*) }} > FLASH
 .exidx : {{ *(.ARM.exidx*) }} > FLASH
 .bss (NOLOAD) : {{ . = ALIGN(16); __bss_start = .; *(.bss*) *(.sbss*) *(COMMON) . = ALIGN(16); __bss_end = .; }} > RAM
 __stack_top = ORIGIN(RAM) + LENGTH(RAM);
 /DISCARD/ : {{ *(.comment) *(.note*) *(.ARM.attributes) *(.riscv.attributes) *(.eh_frame*) }}
}}
"""


@dataclass(frozen=True)
class Image:
    """A linked test program: `command` runs it and leaves `outputs.bin` in `folder`."""

    elf: Path
    folder: Path
    command: tuple[str, ...]


def core_boards() -> dict[str, str]:
    """The roomy emulator board of each core."""
    return {
        "cortex-m0": "qemu_m0",
        "cortex-m3": "qemu_m3",
        "cortex-m4": "qemu_m4",
        "cortex-m4f": "qemu_m4f",
        "cortex-m7": "qemu_m7",
        "cortex-m33": "qemu_m33",
        "cortex-m55": "qemu_m55",
        "rv32imac": "qemu_rv32imac",
        "rv32imafc": "qemu_rv32imafc",
        "rv32ec": "qemu_rv32ec",
    }


def layer_model(
    core: str, lowered: Lowered, inputs: Sequence[Array], outputs: Sequence[tuple[DType, tuple[int, ...]]]
) -> CompiledModel:
    """One lowered layer as a model. `inputs` are one row's arrays (for their sizes), `outputs` dtypes and shapes."""
    board = load_board(core_boards()[core])
    at = 0

    def port(kind: str, number: int, dtype: DType, shape: tuple[int, ...]) -> Port:
        nonlocal at
        size = int(np.prod(shape)) * dtype.bytes
        made = Port(f"layer_{kind}_{number}", f"{kind}{number}", dtype, shape, size, at, (), ())
        # 64 bytes between buffers, so that a write past the end of one is seen in its neighbour or not at all used.
        at += -(-size // 16) * 16 + 64
        return made

    ports_in = tuple(port("input", i, DType(str(x.dtype)), x.shape) for i, x in enumerate(inputs))
    ports_out = tuple(port("output", i, dtype, shape) for i, (dtype, shape) in enumerate(outputs))

    def bound(argument: Any) -> Any:
        if not isinstance(argument, Place):
            return argument
        if argument.role is Role.SCRATCH:
            return ArenaAddress(at + argument.offset)
        ports = ports_in if argument.role is Role.INPUT else ports_out
        return ArenaAddress(ports[argument.index].offset + argument.offset)

    calls = tuple(BoundCall(call.kernel, tuple(bound(a) for a in call.arguments)) for call in lowered.calls)
    accessors = tuple(Accessor(p.symbol, ArenaAddress(p.offset)) for p in (*ports_in, *ports_out))
    program = Program("layer", at + lowered.scratch_bytes + 64, (calls,), accessors)
    objects = generate_objects(program, target_of(board.core))
    return CompiledModel(
        "layer.tflite",
        "layer",
        "",
        core,
        ports_in,
        ports_out,
        False,
        False,
        program.arena_bytes,
        0,
        (),
        0,
        (),
        objects,
        (),
    )


def isa_of(core: str) -> Any:
    return load_isa(target_of(load_board(core_boards()[core]).core))


def build(model: CompiledModel, rows: Sequence[Sequence[Array]], folder: Path) -> Image:
    """Links a model with rows of inputs (`rows[r][i]` is input i of row r) into a program for its core's machine."""
    board = load_board(core_boards()[model.target_core])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "inputs.bin").write_bytes(b"".join(np.ascontiguousarray(x).tobytes() for row in rows for x in row))
    (folder / "glue.c").write_text(_glue(model, len(rows)))
    memories = {m.kind.value: m for m in board.emulator.memories}
    (folder / "link.ld").write_text(_LINK.format(flash=memories["flash"], ram=memories["ram"]))
    objects = []
    for made in model.objects:
        (folder / f"{made.name}.o").write_bytes(made.data)
        objects.append(f"{made.name}.o")
    core = board.core
    flags = [*core.gcc_flags, "-O2", "-ffreestanding", "-fno-builtin"]
    if "riscv" in core.gcc:
        flags.append("-msmall-data-limit=0")
    for source in (str(_SOURCE), "glue.c"):
        _run([core.gcc, *flags, "-c", source, "-o", f"{Path(source).stem}.test.o"], folder)
    _run([core.gcc, *core.gcc_flags, "-c", "-x", "assembler-with-cpp", "-", "-o", "data.test.o"], folder, _data())
    multilib = core.multilib_flags or core.gcc_flags
    libgcc = _run([core.gcc, *multilib, "-print-libgcc-file-name"], folder).strip()
    link = [
        core.gcc,
        *multilib,
        "-nostdlib",
        "-nostartfiles",
        "-Wl,--gc-sections",
        "-Wl,--no-warn-mismatch",
        "-T",
        "link.ld",
    ]
    _run([*link, "main.test.o", "glue.test.o", "data.test.o", *objects, libgcc, "-o", "test.elf"], folder)
    return Image(folder / "test.elf", folder, tuple(_command(board, "test.elf")))


def run(model: CompiledModel, rows: Sequence[Sequence[Array]], folder: Path, seconds: int = 120) -> list[list[Array]]:
    """Runs the rows one after the other; returns each row's outputs. Raises AssertionError where the program faults."""
    image = build(model, rows, folder)
    done = subprocess.run(image.command, cwd=folder, capture_output=True, timeout=seconds, check=False)
    assert done.returncode == 0, f"the program stopped with {done.returncode}: {done.stderr.decode()[-500:]}"
    raw = (folder / "outputs.bin").read_bytes()
    row_bytes = sum(p.bytes for p in model.outputs)
    assert len(raw) == row_bytes * len(rows), f"{len(raw)} output bytes for {len(rows)} rows of {row_bytes}"
    found = []
    for r in range(len(rows)):
        at, outputs = r * row_bytes, []
        for p in model.outputs:
            outputs.append(np.frombuffer(raw, p.dtype.numpy, p.bytes // p.dtype.bytes, at).reshape(p.shape))
            at += p.bytes
        found.append(outputs)
    return found


def run_layer(
    core: str,
    lowered: Lowered,
    rows: Sequence[Sequence[Array]],
    outputs: Sequence[tuple[DType, tuple[int, ...]]],
    folder: Path,
) -> list[list[Array]]:
    """Runs one lowered layer on rows of inputs."""
    return run(layer_model(core, lowered, rows[0], outputs), rows, folder)


def _command(board: Board, elf: str) -> list[str]:
    emulator = board.emulator
    command = [emulator.system, "-M", emulator.machine, "-display", "none", "-monitor", "none", "-serial", "none"]
    if emulator.system.startswith("qemu-system-riscv"):
        command += ["-bios", "none"]
    command += emulator.options
    if emulator.cpu:
        command += ["-cpu", emulator.cpu]
    return [*command, "-semihosting-config", "enable=on,target=native", "-kernel", elf]


def _glue(model: CompiledModel, rows: int) -> str:
    lines = ["#include <stdint.h>"]
    lines += [f"extern void *{p.symbol}(void);" for p in (*model.inputs, *model.outputs)]
    lines += [f"extern uint8_t {model.prefix}_arena[];", f"extern void {model.prefix}_invoke(void);"]
    for kind, ports in (("input", model.inputs), ("output", model.outputs)):
        addresses = ", ".join(f"{model.prefix}_arena + {p.offset}" for p in ports)
        lines.append(f"{'const ' if kind == 'output' else ''}uint8_t *const test_{kind}_ports[] = {{{addresses}}};")
        lines.append(f"const uint32_t test_{kind}_bytes[] = {{{', '.join(str(p.bytes) for p in ports)}}};")
    lines.append(f"const uint32_t test_counts[3] = {{{len(model.inputs)}, {len(model.outputs)}, {rows}}};")
    lines.append(f"void test_invoke(void) {{ {model.prefix}_invoke(); }}")
    return "\n".join(lines) + "\n"


def _data() -> str:
    return '.section .rodata.test, "a"\n.balign 16\n.globl test_inputs\ntest_inputs: .incbin "inputs.bin"\n'


def _run(command: Sequence[str], folder: Path, source: str | None = None) -> str:
    done = subprocess.run(command, cwd=folder, input=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr[-2000:]}"
    return done.stdout
