# SPDX-License-Identifier: Apache-2.0
"""What an instruction does to the stack and to the flow of control: the terms that the stack analysis thinks in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from toolchain.disassembly import Instruction
from toolchain.elf import Elf


class Flow(Enum):
    """Where control goes after an instruction."""

    NEXT = "next"
    BRANCH = "to the target or the next"
    JUMP = "to the target"
    CALL = "to the target, then the next"
    RETURN = "back"
    STOP = "nowhere"
    TABLE = "to one of several places in this function"
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


Value = Constant | StackAddress


@dataclass(frozen=True)
class State:
    """What is known before an instruction: bytes of stack in use, and registers that hold something known."""

    depth: int
    registers: dict[str, Value]


class NotAnalysable(Exception):
    """The stack's depth cannot be followed over an instruction; the message says why."""


class Frames(Protocol):
    """An architecture's rules."""

    def flow(self, instruction: Instruction, state: State) -> tuple[Flow, int | None]:
        """Where control goes, and the target if it is known."""

    def step(self, instruction: Instruction, state: State) -> Iterator[State]:
        """The states after the instruction; two where it is conditional. NotAnalysable if sp's value is lost."""


def literal(elf: Elf, address: int) -> Value | None:
    """The constant that a load from `address` gives, if it is part of the image."""
    word = elf.word(address)
    return None if word is None else Constant(word)


def with_register(state: State, register: str, value: Value | None, depth: int | None = None) -> State:
    """The state after writing a register (None: something unknown) and perhaps changing the depth."""
    known = dict(state.registers)
    if value is None:
        known.pop(register, None)
    else:
        known[register] = value
    return State(state.depth if depth is None else depth, known)


def signed(value: int) -> int:
    """A 32-bit word as a signed number."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value
