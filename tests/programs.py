# SPDX-License-Identifier: Apache-2.0
"""Test programs for emulated cores: one or many compiled models, rows of inputs in, outputs out.

They have nothing of the product's firmware, so that a fault is a kernel's and not the console's or the start-up's.
Many small models share a program, since linking and starting an emulator take longer than running them.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boards.board import Board, Memory
from boards.loader import load_board
from compiler.artifact import CompiledModel

Array = NDArray[Any]
Rows = Sequence[Sequence[Array]]
"""`rows[r][i]` is input i of row r."""
Outputs = list[list[Array]]
"""As Rows, for outputs."""

_SOURCE = Path(__file__).parent / "bare" / "main.c"
_LINK = """MEMORY {{ FLASH (rx) : ORIGIN = {flash.origin:#x}, LENGTH = {flash.size:#x}
 RAM (rwx) : ORIGIN = {ram.origin:#x}, LENGTH = {ram.size:#x} }}
ENTRY(_start)
SECTIONS {{
 .text : {{ KEEP(*(.vectors)) *(.text*) *(.rodata*) *(.srodata*) *(.data*) *(.sdata*) }} > FLASH
 .exidx : {{ *(.ARM.exidx*) }} > FLASH
{arenas}
 .bss {ram.origin:#x} + {arena_bytes:#x} (NOLOAD) : {{
  __bss_start = .; *(.bss*) *(.sbss*) *(COMMON) . = ALIGN(16); __bss_end = .; }} > RAM
 __stack_top = ORIGIN(RAM) + LENGTH(RAM);
 /DISCARD/ : {{ *(.comment) *(.note*) *(.ARM.attributes) *(.riscv.attributes) *(.eh_frame*) }}
}}
"""
_ARENA = " .arena.{number} {origin:#x} (INFO) : {{ *(.bss.{prefix}_arena) }}"
"""Models run one after the other: their arenas may be at one place, which sections that are not loaded may share."""
STACK_BYTES = 64 << 10


@dataclass(frozen=True)
class Image:
    """A linked test program: `command` runs it and leaves `outputs.bin` in `folder`."""

    elf: Path
    folder: Path
    command: tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """A model of a program with its rows."""

    model: CompiledModel
    rows: Rows

    @property
    def output_bytes(self) -> int:
        return len(self.rows) * sum(p.bytes for p in self.model.outputs)

    @property
    def arena_bytes_with_stack(self) -> int:
        return self.model.arena_bytes + STACK_BYTES

    @property
    def flash_bytes(self) -> int:
        """An upper bound of what the model adds to a program."""
        return sum(len(o.data) for o in self.model.objects) + sum(x.nbytes for row in self.rows for x in row)


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


def build_program(entries: Sequence[Entry], folder: Path) -> Image:
    """Links models of one core, whose prefixes differ, into a program for its machine. AssertionError where two kernels
    of one name are not the same code."""
    board = load_board(core_boards()[entries[0].model.target_core])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "inputs.bin").write_bytes(
        b"".join(np.ascontiguousarray(x).tobytes() for entry in entries for row in entry.rows for x in row)
    )
    (folder / "glue.c").write_text(_glue(entries))
    memories = {m.kind.value: m for m in board.emulator.memories}
    (folder / "link.ld").write_text(_link_script(entries, memories["flash"], memories["ram"]))
    core = board.core
    flags = [*core.gcc_flags, "-O2", "-ffreestanding", "-fno-builtin"]
    if "riscv" in core.gcc:
        flags.append("-msmall-data-limit=0")
    for source in (str(_SOURCE), "glue.c"):
        _run([core.gcc, *flags, "-c", source, "-o", f"{Path(source).stem}.test.o"], folder)
    _run([core.gcc, *core.gcc_flags, "-c", "-x", "assembler-with-cpp", "-", "-o", "data.test.o"], folder, _data())
    multilib = core.multilib_flags or core.gcc_flags
    libgcc = _run([core.gcc, *multilib, "-print-libgcc-file-name"], folder).strip()
    command = [core.gcc, *multilib, "-nostdlib", "-nostartfiles", "-Wl,--gc-sections", "-Wl,--no-warn-mismatch"]
    (folder / "objects.txt").write_text("\n".join(_objects(entries, folder)))
    parts = ["main.test.o", "glue.test.o", "data.test.o", "@objects.txt", libgcc]
    _run([*command, "-T", "link.ld", *parts, "-o", "test.elf"], folder)
    return Image(folder / "test.elf", folder, tuple(_command(board, "test.elf")))


def run_program(entries: Sequence[Entry], folder: Path, seconds: int = 120) -> list[Outputs]:
    """Runs the models one after the other, each with its rows. Raises AssertionError where the program faults, with the
    model that ran."""
    image = build_program(entries, folder)
    done = subprocess.run(image.command, cwd=folder, capture_output=True, timeout=seconds, check=False)
    raw = (folder / "outputs.bin").read_bytes() if (folder / "outputs.bin").exists() else b""
    if done.returncode or len(raw) != sum(entry.output_bytes for entry in entries):
        running, left = entries[0], len(raw)
        for entry in entries:
            running, left = entry, left - entry.output_bytes
            if left < 0:
                break
        error = done.stderr.decode()[-500:]
        raise AssertionError(f"the program stopped in {running.model.name} with {done.returncode}: {error}")
    found, at = [], 0
    for entry in entries:
        found.append(split_outputs(entry.model, raw[at : at + entry.output_bytes], len(entry.rows)))
        at += entry.output_bytes
    return found


def split_outputs(model: CompiledModel, raw: bytes, rows: int) -> Outputs:
    """The outputs of consecutive rows, one after another, as arrays."""
    found, at = [], 0
    for _ in range(rows):
        outputs = []
        for p in model.outputs:
            outputs.append(np.frombuffer(raw, p.dtype.numpy, p.bytes // p.dtype.bytes, at).reshape(p.shape))
            at += p.bytes
        found.append(outputs)
    return found


def memory_bytes(core: str) -> tuple[int, int]:
    """Flash and RAM of a core's machine."""
    memories = load_board(core_boards()[core]).emulator.memories
    sizes = {m.kind.value: m.size for m in memories}
    return sizes["flash"], sizes["ram"]


def batches(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """The entries in programs that surely fit the flash of their core's machine."""
    core = entries[0].model.target_core
    limit = 3 * memory_bytes(core)[0] // 4 if core != "host" else 1 << 62
    batch: list[Entry] = []
    for entry in entries:
        if batch and sum(e.flash_bytes for e in [*batch, entry]) > limit:
            yield batch
            batch = []
        batch.append(entry)
    yield batch


def _objects(entries: Sequence[Entry], folder: Path) -> Iterator[str]:
    """Writes each object once; yields the files' names."""
    known: dict[str, bytes] = {}
    for entry in entries:
        for made in entry.model.objects:
            assert known.setdefault(made.name, made.data) == made.data, f"two different kernels are named {made.name}"
    for name, data in known.items():
        (folder / f"{name}.o").write_bytes(data)
        yield f"{name}.o"


def _link_script(entries: Sequence[Entry], flash: Memory, ram: Memory) -> str:
    arena_bytes = -(-max(entry.model.arena_bytes for entry in entries) // 16) * 16
    assert arena_bytes + STACK_BYTES < ram.size, f"an arena of {arena_bytes} bytes does not fit"
    arenas = [
        _ARENA.format(number=number, origin=ram.origin, prefix=entry.model.prefix)
        for number, entry in enumerate(entries)
    ]
    return _LINK.format(flash=flash, ram=ram, arenas="\n".join(arenas), arena_bytes=arena_bytes)


def _command(board: Board, elf: str) -> list[str]:
    emulator = board.emulator
    command = [emulator.system, "-M", emulator.machine, "-display", "none", "-monitor", "none", "-serial", "none"]
    command += emulator.options
    if emulator.cpu:
        command += ["-cpu", emulator.cpu]
    return [*command, "-semihosting-config", "enable=on,target=native", "-kernel", elf]


def _glue(entries: Sequence[Entry]) -> str:
    lines = [f'#include "{_SOURCE.with_name("models.h")}"']
    table = []
    for number, entry in enumerate(entries):
        model = entry.model
        lines += [f"extern uint8_t {model.prefix}_arena[];", f"extern void {model.prefix}_invoke(void);"]
        for kind, ports in (("inputs", model.inputs), ("outputs", model.outputs)):
            places = ", ".join(f"{{{model.prefix}_arena + {p.offset}, {p.bytes}}}" for p in ports)
            lines.append(f"static const struct test_port {kind}_{number}[] = {{{places}}};")
        counts = f"{len(model.inputs)}, {len(model.outputs)}, {len(entry.rows)}"
        table.append(f"{{inputs_{number}, outputs_{number}, {counts}, {model.prefix}_invoke}}")
    lines.append(f"const struct test_model test_models[] = {{{', '.join(table)}}};")
    lines.append(f"const uint32_t test_model_count = {len(entries)};")
    return "\n".join(lines) + "\n"


def _data() -> str:
    return '.section .rodata.test, "a"\n.balign 16\n.globl test_inputs\ntest_inputs: .incbin "inputs.bin"\n'


def _run(command: Sequence[str], folder: Path, source: str | None = None) -> str:
    done = subprocess.run(command, cwd=folder, input=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr[-2000:]}"
    return done.stdout
