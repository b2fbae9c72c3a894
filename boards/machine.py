# SPDX-License-Identifier: Apache-2.0
"""QEMU's machines as data (boards/machines.toml)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from boards.board import Console, Memory, MemoryKind
from boards.schema import Table
from compiler.errors import UserError


@dataclass(frozen=True)
class Machine:
    """A machine of QEMU, which calls it `qemu`: regions that code and data may use, the UART that twins talk on."""

    name: str
    qemu: str
    system: str
    options: tuple[str, ...]
    version: tuple[int, int]
    clock_hz: int
    flash: Memory
    ram: Memory
    console: Console | None
    serials: Mapping[str, int]
    """Which of QEMU's serial ports each UART of a native board is."""

    def region(self, kind: MemoryKind) -> Memory:
        return self.ram if kind is MemoryKind.RAM else self.flash

    def serial_of(self, uart: str, where: str) -> int:
        """UserError for a UART that QEMU's machine does not connect."""
        if uart not in self.serials:
            allowed = ", ".join(sorted(self.serials))
            raise UserError(f"QEMU's {self.name} does not connect this UART", where=where, got=uart, allowed=allowed)
        return self.serials[uart]

    def require_console(self, where: str) -> Console:
        if self.console is None:
            raise UserError("this machine runs native boards only", where=where, got=self.name)
        return self.console


def read_machine(machines: Table, name: str) -> Machine:
    """The machine `name`. UserError where there is none or its entry is at fault."""
    table = machines.choose(name)
    console: Console | None = None
    if "console" in table:
        uart = table.table("console")
        console = Console(uart.text("driver"), uart.integer("base"), 115200, uart.integer("clock_hz", low=1), ())
        uart.close()
    version = table.text("version", "7.2").split(".")
    if len(version) != 2 or not all(part.isdigit() for part in version):
        raise UserError("not a version", where=table.where, got=".".join(version), allowed="MAJOR.MINOR")
    serials = table.table("serials", optional=True)
    machine = Machine(
        name=name,
        qemu=table.text("qemu", name),
        system=table.text("system"),
        options=table.texts("options", ()),
        version=(int(version[0]), int(version[1])),
        clock_hz=table.integer("clock_hz", low=1),
        flash=_region(table.table("flash"), "FLASH", MemoryKind.FLASH),
        ram=_region(table.table("ram"), "RAM", MemoryKind.RAM),
        console=console,
        serials={name: serials.integer(name, high=7) for name in serials.names()},
    )
    table.close()
    return machine


def _region(table: Table, name: str, kind: MemoryKind) -> Memory:
    memory = Memory(name, kind, table.integer("origin"), table.integer("size", low=1))
    table.close()
    return memory
