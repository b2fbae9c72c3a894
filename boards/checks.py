# SPDX-License-Identifier: Apache-2.0
"""What would fail late, in a linker script or at the compiler, is told with the board file and its line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from boards.board import Core, Memory, MemoryKind
from boards.schema import Table
from compiler.errors import UserError

TEMPLATES = Path(__file__).parents[1] / "firmware_templates"
ADDRESSES = 1 << 32
RAM_ALIGNMENT = 16
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NOT_HANDLERS = ("main", "Reset_Handler", "Default_Handler")


def check_memory(memory: Memory, table: Table) -> None:
    """UserError for a memory that a linker script cannot have."""
    _check_name(memory.name, table.place("name"))
    if memory.end > ADDRESSES:
        raise UserError(
            "the memory ends beyond the addresses of 32 bits",
            where=table.place("origin"),
            got=f"{memory.name} up to {memory.end:#x}",
            allowed=f"up to {ADDRESSES:#x}",
        )
    if memory.kind is MemoryKind.RAM and memory.origin % RAM_ALIGNMENT:
        raise UserError(
            f"a RAM bank must begin at a multiple of {RAM_ALIGNMENT}",
            where=table.place("origin"),
            got=f"{memory.name} at {memory.origin:#x}",
        )


def check_vectors(names: Iterable[str], where: str) -> None:
    """UserError for handlers that are no functions of C, or two of one name. '' is a reserved slot."""
    seen = set(_NOT_HANDLERS)
    for name in filter(None, names):
        _check_name(name, where)
        if name in seen:
            raise UserError("two vectors, or a vector and start-up, have one name", where=where, got=name)
        seen.add(name)


def check_template(folder: str, name: str, suffix: str, where: str) -> str:
    """The name of firmware_templates/<folder>/<name>.<suffix>.j2. UserError where there is none."""
    found = sorted(path.name.removesuffix(f".{suffix}.j2") for path in (TEMPLATES / folder).glob(f"*.{suffix}.j2"))
    if name not in found:
        raise UserError(f"no such {folder} template", where=where, got=name, allowed=", ".join(found))
    return name


def check_startup(name: str, core: Core, where: str) -> str:
    """The name of a start-up template for the core. UserError for none, or another architecture's."""
    check_template("startup", name, "S", where)
    if core.triple.startswith("thumb") != name.startswith("cortex"):
        raise UserError("this start-up is for another architecture", where=where, got=f"{name} on {core.name}")
    return name


def register_address(table: Table, key: str) -> int:
    """The address of a register of 32 bits. UserError where it is not a multiple of 4."""
    address = table.integer(key)
    if address % 4:
        raise UserError("a register's address is a multiple of 4", where=table.place(key), got=f"{address:#x}")
    return address


def _check_name(name: str, where: str) -> None:
    if not _NAME.fullmatch(name):
        raise UserError("not a name in C", where=where, got=repr(name), allowed="letters, digits and _")
