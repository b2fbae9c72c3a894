# SPDX-License-Identifier: Apache-2.0
"""Estimates of cycles from published instruction timings (boards/timings) and how often each instruction ran.

Wait states, bus contention and interlocks that the tables do not tell of are left out. A branch counts as taken as
often as it ran more than the instruction behind it, which is exact unless something else jumps there.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from toolchain.elf.disassembly import Code, Instruction

FOLDER = Path(__file__).resolve().parents[2] / "boards" / "timings"
_RANGE = re.compile(r"[a-z]+(\d+)-[a-z]+(\d+)")
_CONDITIONAL = re.compile(r"b(eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)|cbn?z")
_ALWAYS = re.compile(r"b|bl|bx|blx|tb[bh]")
_INTO_PC = ("ldmia", "ldr", "mov", "pop")


@dataclass(frozen=True)
class Rule:
    """Cycles of instructions whose whole mnemonic, without width and type suffixes, matches; with `registers` one more
    for each word of the list, with `pipelined` one less behind another such instruction."""

    mnemonics: str
    cycles: int
    registers: bool = False
    pipelined: bool = False


@dataclass(frozen=True)
class Timing:
    """What instructions of some cores take: by the first rule that matches, else one cycle; `taken` more where control
    goes elsewhere."""

    source: str
    note: str
    cores: tuple[str, ...]
    taken: int
    rules: tuple[Rule, ...]


@cache
def timings() -> tuple[Timing, ...]:
    """All tables, in order of their files' names."""
    return tuple(_timing(path) for path in sorted(FOLDER.glob("*.toml")))


def timing_of(core: str) -> Timing | None:
    """The core's table; None where its vendor publishes none."""
    return next((timing for timing in timings() if core in timing.cores), None)


def estimate(timing: Timing, code: Code, runs: Mapping[int, int]) -> int:
    """Cycles of instructions that ran so often, by address."""
    rules: dict[str, Rule] = {}
    total, before = 0, False
    for address in sorted(runs):
        instruction = code.instructions[address]
        bare = instruction.mnemonic.split(".", 1)[0]
        if bare not in rules:
            rules[bare] = next((rule for rule in timing.rules if re.fullmatch(rule.mnemonics, bare)), Rule("", 1))
        rule = rules[bare]
        cycles = rule.cycles + (_registers(instruction) if rule.registers else 0) - (rule.pipelined and before)
        taken = _taken(bare, instruction, runs)
        before = rule.pipelined
        total += cycles * runs[address] + timing.taken * taken
    return total


def _timing(path: Path) -> Timing:
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    rules = tuple(Rule(**rule) for rule in table["rule"])
    return Timing(table["source"], table["note"], tuple(table["cores"]), table["taken"], rules)


def _registers(instruction: Instruction) -> int:
    """The number of words in the register list of an instruction: a double is two."""
    listed = instruction.operands[instruction.operands.index("{") :].strip("{} ").split(",")
    return sum(_words(register.strip()) for register in listed)


def _words(listed: str) -> int:
    """Those of a register, or of a range of them."""
    found = _RANGE.fullmatch(listed)
    return (int(found[2]) - int(found[1]) + 1 if found else 1) * (2 if listed.startswith("d") else 1)


def _taken(bare: str, instruction: Instruction, runs: Mapping[int, int]) -> int:
    """How often an instruction led elsewhere."""
    count = runs[instruction.address]
    if _CONDITIONAL.fullmatch(bare):
        return max(count - runs.get(instruction.address + instruction.size, 0), 0)
    written = instruction.operands.split("{")[-1] if "{" in instruction.operands else instruction.operands.split(",")[0]
    return count if _ALWAYS.fullmatch(bare) or (bare in _INTO_PC and re.search(r"\bpc\b", written)) else 0
