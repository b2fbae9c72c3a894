# SPDX-License-Identifier: Apache-2.0
"""A board and an ELF file to QEMU's command line."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from boards.board import Emulator
from compiler.errors import UserError

PACKAGES = {"qemu-system-arm": "qemu-system-arm", "qemu-system-riscv32": "qemu-system-misc"}
"""Debian's package of each emulator."""


@dataclass(frozen=True)
class Channels:
    """File descriptors of connected sockets that QEMU inherits: the board's UART, QMP, and the GDB stub."""

    console: int
    monitor: int
    debugger: int


@dataclass(frozen=True)
class Options:
    """`plugin` is what follows -plugin. `icount`: virtual time advances one nanosecond an instruction."""

    plugin: str | None = None
    icount: bool = False


def machine_command(emulator: Emulator, elf: Path, serial: str) -> list[str]:
    """The arguments that boot `elf` with the board's UART at `serial`, a QEMU character device, and nothing else
    connected. UserError: see find_emulator."""
    command = [str(find_emulator(emulator)), "-machine", emulator.machine, *emulator.options]
    if emulator.cpu:
        command += ["-cpu", emulator.cpu]
    command += ["-nodefaults", "-display", "none", "-no-reboot", "-kernel", str(elf)]
    return [*command, *["-serial", "null"] * emulator.serial, "-serial", serial]


def emulator_command(emulator: Emulator, elf: Path, channels: Channels, options: Options) -> list[str]:
    """As `machine_command`, paused, with nothing connected but `channels`."""
    command = [*machine_command(emulator, elf, "chardev:console"), "-S"]
    command += ["-chardev", f"socket,id=console,fd={channels.console}"]
    command += ["-chardev", f"socket,id=monitor,fd={channels.monitor}", "-mon", "chardev=monitor,mode=control"]
    command += ["-chardev", f"socket,id=debugger,fd={channels.debugger}", "-gdb", "chardev:debugger"]
    if options.icount:
        command += ["-icount", "shift=0,sleep=off"]
    if options.plugin is not None:
        command += ["-plugin", options.plugin]
    return command


def find_emulator(emulator: Emulator) -> Path:
    """The path of the board's QEMU. UserError where it is missing or too old."""
    found = shutil.which(emulator.system)
    if found is None:
        raise UserError(
            f"{emulator.system} is not installed",
            where=f"emulated machine {emulator.machine}",
            hint=f"sudo apt-get install {PACKAGES.get(emulator.system, emulator.system)}",
        )
    version = emulator_version(Path(found))
    if version < emulator.version:
        raise UserError(
            f"{emulator.system} is too old for the machine {emulator.machine}",
            where=found,
            got=".".join(map(str, version)),
            allowed=f"{'.'.join(map(str, emulator.version))} or newer",
        )
    return Path(found)


@functools.cache
def emulator_version(binary: Path) -> tuple[int, int]:
    """(major, minor) of a QEMU. UserError where it does not say."""
    try:
        shown = subprocess.run([str(binary), "--version"], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise UserError("this QEMU does not run", where=str(binary), got=str(error)) from error
    match = re.search(r"version (\d+)\.(\d+)", shown.stdout)
    if match is None:
        raise UserError("this QEMU does not tell its version", where=str(binary), got=shown.stdout.strip()[:200])
    return int(match[1]), int(match[2])
