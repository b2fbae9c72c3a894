# SPDX-License-Identifier: Apache-2.0
"""A board, as the loader hands it on: frozen values, filled from TOML alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from boards.flashing import Flashing


class MemoryKind(Enum):
    """Constants: what else holds stored bytes, where the memory of the code can only be fetched from, not read."""

    FLASH = "flash"
    CONSTANTS = "constants"
    RAM = "ram"


@dataclass(frozen=True)
class Memory:
    """A region of the address space, in bytes. Of several RAM banks the first one holds data and stack."""

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
    `multilib_flags` are the flags by which libgcc and libc are found (Debian's RISC-V GCC falls back to a 64-bit
    library where `_zicsr` is named). `float_unit` is none, single or double.
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


class RegisterStep(NamedTuple):
    """A register write of the start-up: `*address = (*address & ~clear) | set`, 32 bits wide; where `clear` is all
    ones, the register is not read.

    Where `wait` is not zero, the firmware then polls, a bounded number of times, until `*address & wait` equals
    `wait`. With `clear` and `set` both zero nothing is written and the step only waits.
    """

    address: int
    clear: int
    set: int
    wait: int


@dataclass(frozen=True)
class Console:
    """The UART that the firmware talks on. `driver` names firmware_templates/uart/<driver>.c.j2; `clock_hz` is the
    clock that its baud rate is divided from, in Hz."""

    driver: str
    base: int
    baud: int
    clock_hz: int
    setup: tuple[RegisterStep, ...]
    """Clock and pins, in order, before the UART is used."""


@dataclass(frozen=True)
class Clock:
    """A way to run: 'reset' is safe everywhere, 'max' is full speed with its wait states, caches and prefetch. `hz` is
    the core's clock in Hz; `console` is set up for it, and its `setup` begins with what brings the clock about."""

    name: str
    hz: int
    console: Console


@dataclass(frozen=True)
class Emulator:
    """How the board runs under QEMU.

    `native`: QEMU models the chip and runs firmware.elf unchanged. Otherwise the twin is linked for `machine` with
    `memories` (their sizes are the real board's) and `console`, from the same objects. `cpu` is the argument of
    QEMU's -cpu, empty for the machine's own; `options` are further arguments; `version` is the oldest QEMU that will
    do. `serial` is the number of the console among the machine's serial ports. `clock_hz` is what the emulated core
    ticks at, on RISC-V its `mtime`.
    """

    system: str
    machine: str
    cpu: str
    options: tuple[str, ...]
    version: tuple[int, int]
    native: bool
    serial: int
    clock_hz: int
    memories: tuple[Memory, ...]
    console: Console


@dataclass(frozen=True)
class Board:
    """A board that firmware is built for. Sizes in bytes, clocks in Hz; the first of `clocks` is the reset clock."""

    name: str
    aliases: tuple[str, ...]
    description: str
    chip: str
    core: Core
    memories: tuple[Memory, ...]
    arena_banks: tuple[str, ...]
    """The RAM banks by name, the one that should hold the arena first."""
    clocks: tuple[Clock, ...]
    startup: str
    """Names firmware_templates/startup/<startup>.S.j2: the family of cores that starts alike."""
    timer: str
    """Names firmware_templates/timer/<timer>.c.j2: what the console tells time from."""
    vectors: tuple[str, ...]
    """The vendor's handler names of the chip's own interrupts, from slot 16 of the vector table on; '' is reserved.
    The 16 slots before belong to the core, so to the start-up template."""
    image: str
    """What the boot ROM wants of an image (toolchain/images/forms.py): 'plain' is nothing."""
    simulator: str
    """What the simulator of the tests (tests/simulator) calls the chip; empty where it lacks chip or UART."""
    emulator: Emulator
    flashing: Flashing | None = None
    """How it is flashed over serial; None where there is no way, or none is known."""
    usual_console: str = "uart"
    """The console where the user names none: uart, or compact where memory is short."""

    @property
    def console(self) -> Console:
        """The UART as it is set up at the reset clock."""
        return self.clocks[0].console

    @property
    def clock_hz(self) -> int:
        """The reset clock."""
        return self.clocks[0].hz

    @property
    def flash(self) -> Memory:
        """The first flash region: vectors, code and constants."""
        return next(m for m in self.memories if m.kind is MemoryKind.FLASH)

    @property
    def constants(self) -> Memory:
        """Where constants are stored: in flash, unless code memory cannot be read as data."""
        return next((m for m in self.memories if m.kind is MemoryKind.CONSTANTS), self.flash)

    @property
    def ram(self) -> Memory:
        """The first RAM bank: data, arena and stack."""
        return next(m for m in self.memories if m.kind is MemoryKind.RAM)
