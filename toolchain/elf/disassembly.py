# SPDX-License-Identifier: Apache-2.0
"""The instructions of an image, as binutils' objdump reads them: it knows every core that its assembler knows."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from toolchain.gcc import Compiler

LINE = re.compile(r"^\s*([0-9a-f]+):\t([0-9a-f ]+?)\s*\t(\S+)(?:\s+(.*))?$")
TARGET = re.compile(r"(?:^|,\s?)([0-9a-f]+) <")
COMMENT = re.compile(r"\s+[@#;] .*$|\s+[@;].*$|\s+# .*$")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. `operands` is objdump's text without comments; `target` a direct branch's destination."""

    address: int
    size: int
    mnemonic: str
    operands: str
    target: int | None

    def __str__(self) -> str:
        return f"{self.address:#x}: {self.mnemonic} {self.operands}".rstrip()


@dataclass(frozen=True)
class Code:
    """Instructions by address. Data between them (literal pools) is left out."""

    instructions: dict[int, Instruction]


def disassemble(compiler: Compiler, image: Path) -> Code:
    """All code of an ELF file."""
    options = ["-M", "no-aliases,numeric"]
    if compiler.is_arm:
        # objdump takes Helium for old coprocessor instructions unless it is told the architecture.
        options = ["-m", "armv8.1-m.main"] if "v8.1m" in compiler.core.triple else []
    result = compiler.run_binutil("objdump", ["-d", "-w", "-z", *options, os.path.relpath(image, compiler.directory)])
    if result.code != 0:
        raise RuntimeError(f"objdump: {result.text}")
    return Code(parse(result.text))


def parse(text: str) -> dict[int, Instruction]:
    """objdump's listing to instructions; `.word` and its like are data."""
    found: dict[int, Instruction] = {}
    for line in text.splitlines():
        match = LINE.match(line)
        if match is None:
            continue
        address, raw, mnemonic, operands = match.groups()
        if mnemonic in (".word", ".short", ".byte"):
            continue
        plain = COMMENT.sub("", operands or "")
        target = TARGET.search(plain)
        start = int(address, 16)
        found[start] = Instruction(
            start, len(raw.replace(" ", "")) // 2, mnemonic, plain, int(target[1], 16) if target else None
        )
    return found
