# SPDX-License-Identifier: Apache-2.0
"""Whether the flags of a core agree with each other: an ABI needs registers, and GCC and LLVM must be told the same."""

from __future__ import annotations

from boards.board import Core
from boards.schema import Table
from compiler.errors import UserError

_RISCV = {"ilp32": ("i", "none"), "ilp32e": ("e", "none"), "ilp32f": ("f", "single"), "ilp32d": ("d", "double")}
"""RISC-V ABI to the extension that it needs, and the float unit."""


def check_abi(core: Core, table: Table) -> None:
    """UserError for an ABI that the core's registers do not allow, or that GCC and LLVM are told differently."""
    flags = dict(flag.partition("=")[::2] for flag in core.gcc_flags)
    arm = core.triple.startswith("thumb")
    if not (_arm_agrees(core, flags) if arm else _riscv_agrees(core, flags)):
        raise UserError(
            f"the ABI does not fit {core.name}, whose float unit is {core.float_unit}",
            where=table.place("gcc_flags"),
            got=f"{' '.join(core.gcc_flags)} with LLVM's {core.triple} {core.llvm_abi}".rstrip(),
            allowed="-mfloat-abi=hard with a float unit only"
            if arm
            else "ilp32 and ilp32e without a float unit (ilp32e with 16 registers), ilp32f or ilp32d with one",
        )


def _arm_agrees(core: Core, flags: dict[str, str]) -> bool:
    hard = flags.get("-mfloat-abi") == "hard"
    return hard == (core.float_unit != "none") == core.triple.endswith("hf")


def _riscv_agrees(core: Core, flags: dict[str, str]) -> bool:
    letters, abi = flags["-march"].removeprefix("rv32").split("_")[0], flags.get("-mabi")
    extension, unit = _RISCV.get(core.llvm_abi, ("", ""))
    rv32e = ("e" in letters) == (core.llvm_abi == "ilp32e")
    return abi == core.llvm_abi and extension in letters and rv32e and unit == core.float_unit
