# SPDX-License-Identifier: Apache-2.0
"""How deep the stack gets at worst: the core takes a fault just where the stack is deepest.

A first run shows how far the stack got. A second one stops at the first write to that place, where the next instruction
is replaced by an undefined one: an Arm core then pushes its frame below (Armv7-M manual, B1.5.6). Where the firmware
handles SysTick, the core waits there for it and the fault is in its handler. A RISC-V core pushes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from boards.board import Emulator
from qemu.console import READY, Console, Timeouts
from qemu.debugger import Debugger
from qemu.machine import Emulation, EmulatorError
from qemu.stack import StackRegion
from qemu.symbols import Symbols

PC = 15
UNDEFINED = b"\x00\xde"
"""Arm's `udf #0`."""
LOOP = b"\xfe\xe7"
"""Arm's branch to itself."""
ERROR = "e-["
"""What the report of a fault begins with, one in the stack's guard too."""


@dataclass(frozen=True)
class Depth:
    """Bytes of stack that were written to: by the program, and by it, its timer's interrupt and a fault in that."""

    program: int
    with_fault: int


def measure_depth(emulator: Emulator, elf: Path, commands: Sequence[str], seconds: float) -> Depth:
    """Has the console run `commands` ("test", "infer 1 0"), each for `seconds` at most.

    Raises what Emulation and Console raise; EmulatorError where the second run does not get to the deepest place.
    """
    region = StackRegion.of(elf)
    limit = 2 * seconds * (len(commands) + 1)
    with Emulation(emulator, elf, limit) as emulation:
        console = _booted(emulation, region, seconds)
        for command in commands:
            console.command(command)
        used = region.high_water(emulation)
    if not emulator.system.endswith("arm"):
        return Depth(used, used)
    with Emulation(emulator, elf, limit) as emulation:
        _booted(emulation, region, seconds)
        _stop_at(emulation, region.top - used, commands)
        with emulation.debugger() as debugger:
            debugger.unwatch(region.top - used)
            _put_fault(debugger, Symbols(elf))
        emulation.resume()
        _said(emulation, ERROR)
        return Depth(used, region.high_water(emulation))


def _booted(emulation: Emulation, region: StackRegion, seconds: float) -> Console:
    region.paint(emulation)
    emulation.resume()
    console = Console(emulation, timeouts=Timeouts(line_s=seconds, infer_s=seconds))
    console.wait_ready()
    return console


def _stop_at(emulation: Emulation, address: int, commands: Sequence[str]) -> None:
    """Runs the commands until one writes to `address`."""
    emulation.stop()
    with emulation.debugger() as debugger:
        debugger.watch(address)
    emulation.resume()
    for command in commands:
        emulation.write(f"{command}%".encode())
        if not _said(emulation, READY):
            return
    raise EmulatorError(f"{emulation.elf} never wrote to {address:#x} again")


def _put_fault(debugger: Debugger, symbols: Symbols) -> None:
    """Has the guest fault where it stands, or in its handler of SysTick where it has one."""
    here, handler = debugger.register(PC), symbols["SysTick_Handler"].address
    if handler == symbols["Default_Handler"].address:
        debugger.write_memory(here, UNDEFINED)
    else:
        debugger.write_memory(here, LOOP)
        debugger.write_memory(handler, UNDEFINED)


def _said(emulation: Emulation, text: str) -> bool:
    """Waits until the firmware says `text`; False when it stands still without."""
    said = b""
    while text.encode() not in said:
        heard = emulation.read(0.05)
        said += heard
        if not heard and emulation.stopped:
            return False
    return True
