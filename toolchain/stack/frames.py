# SPDX-License-Identifier: Apache-2.0
"""What an instruction does to the stack and to the flow of control: the terms that the stack analysis thinks in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from toolchain.elf.disassembly import Instruction
from toolchain.elf.file import Elf


class Flow(Enum):
    """Where control goes after an instruction."""

    NEXT = "next"
    BRANCH = "to the target or the next"
    JUMP = "to one of the targets"
    CALL = "to the target, then the next"
    RETURN = "back"
    STOP = "nowhere"
    INDIRECT_CALL = "to an unknown place, then the next"
    INDIRECT_JUMP = "to an unknown place"


@dataclass(frozen=True, slots=True)
class Constant:
    """A register holds this number."""

    value: int


@dataclass(frozen=True, slots=True)
class StackAddress:
    """A register points `depth` bytes below where sp was at the function's entry (at most)."""

    depth: int


@dataclass(frozen=True, slots=True)
class TableAddress:
    """A register points somewhere into the table at `base`."""

    base: int


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A register holds one of the words of the table at `base`, plus `anchor`: tables may be relative to a place."""

    base: int
    anchor: int = 0


@dataclass(frozen=True, slots=True)
class ReturnAddress:
    """A register holds the place that called the function."""


Value = Constant | StackAddress | TableAddress | TableEntry | ReturnAddress
Target = tuple[Flow, tuple[int, ...]]


@dataclass(frozen=True)
class State:
    """What is known before an instruction: bytes of stack in use, and registers that hold something known."""

    depth: int
    registers: dict[str, Value]


class NotAnalysable(Exception):
    """The stack's depth cannot be followed over an instruction; the message says why."""


class Frames(Protocol):
    """An architecture's rules."""

    def entry(self) -> State:
        """What is known when a function begins."""

    def flow(self, instruction: Instruction, state: State) -> Target:
        """Where control goes, and the targets if they are known."""

    def step(self, instruction: Instruction, state: State) -> Iterator[State]:
        """The states after the instruction; two where it is conditional. NotAnalysable if sp's value is lost."""


def literal(elf: Elf, address: int) -> Value | None:
    """The constant that a load from `address` gives, if it is part of the image and not a variable."""
    word = elf.constant_word(address)
    return None if word is None else Constant(word)


def jump_table(elf: Elf, entry: TableEntry, inside: int) -> tuple[int, ...]:
    """The targets in a table of addresses: its words as long as they point into the function that has the
    instruction at `inside`. Empty if that function or the table is not known."""
    function = next((s for s in elf.symbols if s.kind == "STT_FUNC" and s.address <= inside < s.address + s.size), None)
    targets: list[int] = []
    while function is not None:
        word = elf.constant_word(entry.base + 4 * len(targets))
        target = ((word or 0) + entry.anchor) & 0xFFFFFFFE
        if word is None or not function.address <= target < function.address + function.size:
            break
        targets.append(target)
    return tuple(sorted(set(targets)))


def with_register(state: State, register: str, value: Value | None, depth: int | None = None) -> State:
    """The state after writing a register (None: something unknown) and perhaps changing the depth."""
    known = dict(state.registers)
    if value is None:
        known.pop(register, None)
    else:
        known[register] = value
    return State(state.depth if depth is None else depth, known)


def joined(one: State, other: State) -> State:
    """What is known where two ways meet: the greater depth, and the registers on which both agree."""
    agreed = {name: value for name, value in one.registers.items() if other.registers.get(name) == value}
    return State(max(one.depth, other.depth), agreed)


def signed(value: int) -> int:
    """A 32-bit word as a signed number."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value
