# SPDX-License-Identifier: Apache-2.0
"""Instructions that a core does not have, found in the disassembled image. Armv6-M, v7-M, v8-M and RISC-V manuals."""

from __future__ import annotations

import re
from collections.abc import Iterator

from boards.board import Core
from toolchain.elf.disassembly import Code, Instruction

V6M_WIDE = frozenset({"bl", "mrs", "msr", "dsb", "dmb", "isb", "udf.w"})
V6M_ABSENT = re.compile(
    r"^(cbn?z|it[te]{0,3}$|movw|movt|sdiv|udiv|clz|rbit|bfi|bfc|ubfx|sbfx|mls|mla|tb[bh]|ldrex|strex)"
)
ARM_DSP = re.compile(
    r"^(smlad|smlald|smlsd|smlsld|smuad|smusd|smml[as]|smmul|smul[bt][bt]|smulw|smla[bt][bt]|smlal[bt][bt]|smlaw"
    r"|[su]xta?b16|[su]xtab\b|[su]xtah\b|pkh|q(d)?(add|sub)|qasx|qsax|[us]h?(add|sub)(8|16)|uq(add|sub)|sel\b|usada?8"
    r"|[su]sat16|umaal)"
)
ARM_V8M = re.compile(r"^(lda|stl|ldaex|stlex|ttt?a?t?\b|sg\b|blxns|bxns)")
ARM_V81M = re.compile(r"^(le\b|letp|dls|dlstp|wls|wlstp|lctp|csel|csinc|csinv|csneg|cset|csetm|cinc|vctp|bf[lx]?\b)")
MVE_REGISTER = re.compile(r"\bq[0-7]\b")
HIGH_REGISTER = re.compile(r"\bx(1[6-9]|2\d|3[01])\b")
RISCV_UNKNOWN = re.compile(r"^\.(insn|2byte|4byte|8byte)")
MARCH = re.compile(r"^-march=rv32([a-z]+)")


def foreign_instructions(core: Core, code: Code) -> Iterator[str]:
    """A line for each kind of instruction that the core lacks, with the first place and the count."""
    reason = _arm(core) if core.triple.startswith("thumb") else _riscv(core)
    found: dict[str, list[Instruction]] = {}
    for instruction in code.instructions.values():
        why = reason(instruction)
        if why:
            found.setdefault(why, []).append(instruction)
    for why, places in sorted(found.items()):
        yield f"instruction: {why} on {core.name}: {places[0]} ({len(places)} such)"


class _Arm:
    """Why an instruction is foreign to an Arm core; empty if it is not."""

    def __init__(self, core: Core) -> None:
        cpu = next(flag.removeprefix("-mcpu=") for flag in core.gcc_flags if flag.startswith("-mcpu="))
        self._baseline = cpu.startswith("cortex-m0")
        self._dsp = cpu not in ("cortex-m0", "cortex-m0plus", "cortex-m3")
        self._v8 = cpu in ("cortex-m33", "cortex-m55", "cortex-m85")
        self._v81 = cpu in ("cortex-m55", "cortex-m85")
        self._float, self._double = core.float_unit != "none", core.float_unit == "double"

    def __call__(self, instruction: Instruction) -> str:
        name = instruction.mnemonic
        if name.startswith(("<", ".inst", "cdp", "mcr", "mrc", "ldc", "stc")) or "UNDEFINED" in instruction.operands:
            return "unknown code"
        if self._baseline and instruction.size == 4 and name not in V6M_WIDE:
            return "an Armv7-M instruction"
        if self._baseline and V6M_ABSENT.match(name):
            return "an Armv7-M instruction"
        if name.startswith("v") and not self._float:
            return "a float instruction"
        if ".f64" in name and not self._double and name.startswith("v"):
            return "a double precision instruction"
        if not self._v81 and (
            ARM_V81M.match(name) or (name.startswith("v") and MVE_REGISTER.search(instruction.operands))
        ):
            return "an Armv8.1-M instruction"
        if not self._v8 and ARM_V8M.match(name):
            return "an Armv8-M instruction"
        if not self._dsp and ARM_DSP.match(name):
            return "a DSP instruction"
        return ""


class _Riscv:
    """Why an instruction is foreign to a RISC-V core; empty if it is not."""

    def __init__(self, core: Core) -> None:
        letters = next(match[1] for flag in core.gcc_flags if (match := MARCH.match(flag)))
        self._has = frozenset(letters)

    def __call__(self, instruction: Instruction) -> str:
        name = instruction.mnemonic.removeprefix("c.")
        if RISCV_UNKNOWN.match(instruction.mnemonic):
            return "unknown code"
        if "e" in self._has and HIGH_REGISTER.search(instruction.operands):
            return "a register above x15"
        if "m" not in self._has and re.match(r"^(mul|div|rem)", name):
            return "a multiplication or division"
        if "a" not in self._has and re.match(r"^(lr|sc|amo\w+)\.", name):
            return "an atomic instruction"
        if "f" not in self._has and re.match(r"^f(?!ence)", name):
            return "a float instruction"
        if "d" not in self._has and (re.match(r"^f(ld|sd|ldsp|sdsp)$", name) or (name[0] == "f" and ".d" in name)):
            return "a double precision instruction"
        if "c" not in self._has and instruction.size == 2:
            return "a compressed instruction"
        return ""


def _arm(core: Core) -> _Arm:
    return _Arm(core)


def _riscv(core: Core) -> _Riscv:
    return _Riscv(core)
