# SPDX-License-Identifier: Apache-2.0
"""A board, as the loader hands it on: frozen values, filled from TOML alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class MemoryKind(Enum):
    FLASH = "flash"
    RAM = "ram"


@dataclass(frozen=True)
class Memory:
    """A region of the address space, in bytes. `usage` orders RAM banks: the first one holds data and stack."""

    name: str
    kind: MemoryKind
    origin: int
    size: int

    @property
    def end(self) -> int:
        """The first address behind the region."""
        return self.origin + self.size


@dataclass(frozen=True)
class Core:
    """An instruction set with what each tool calls it (boards/cores.toml).

    `isa` names the kernel set (compiler/isa/<isa>.py); `march`/`mabi` and `mcpu`/`fpu`/`float_abi` are GCC's names.
    `multilib_march` is the march by which libgcc and libc are found (without `_zicsr`). `capstone` names the
    disassembler mode with which an image is checked against the core.
    """

    name: str
    isa: str
    triple: str
    llvm_cpu: str
    llvm_features: str
    llvm_abi: str
    gcc: str
    gcc_flags: tuple[str, ...]
    multilib_flags: tuple[str, ...]
    float_unit: str


@dataclass(frozen=True)
class Console:
    """The UART that the firmware talks on. `driver` names firmware_templates/uart/<driver>.c.j2."""

    driver: str
    base: int
    baud: int
    setup: tuple[tuple[int, int, int], ...]
    """Register writes that enable clock and pins before the UART is used: (address, clear mask, set mask)."""


@dataclass(frozen=True)
class Emulator:
    """How the board runs under QEMU.

    `native`: QEMU models the chip and runs firmware.elf unchanged. Otherwise the twin is linked for `machine` with
    `memories` (their sizes are the real board's) and `console`, from the same objects.
    """

    system: str
    machine: str
    cpu: str
    native: bool
    memories: tuple[Memory, ...]
    console: Console


@dataclass(frozen=True)
class Board:
    """A board that firmware is built for. Sizes in bytes, clock in Hz (what the safe reset clock gives)."""

    name: str
    aliases: tuple[str, ...]
    description: str
    chip: str
    core: Core
    memories: tuple[Memory, ...]
    console: Console
    clock_hz: int
    startup: str
    """Names firmware_templates/startup/<startup>.S.j2: the family of cores that starts alike."""
    vectors: tuple[str, ...]
    interrupt_stack: int
    """Bytes of stack reserved for exception entry and nesting."""
    image: str
    """What precedes the program in flash: 'plain', 'rp2040' (boot2 with its checksum), ..."""
    emulator: Emulator

    @property
    def flash(self) -> Memory:
        """The first flash region: vectors, code and constants."""
        return next(m for m in self.memories if m.kind is MemoryKind.FLASH)

    @property
    def ram(self) -> Memory:
        """The first RAM bank: data, arena and stack."""
        return next(m for m in self.memories if m.kind is MemoryKind.RAM)
