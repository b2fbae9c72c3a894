# SPDX-License-Identifier: Apache-2.0
"""Stack and flow of RV32 code, from objdump's text with numeric registers and no aliases. RISC-V manual, volume I."""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolchain.elf.disassembly import Instruction
from toolchain.elf.file import Elf
from toolchain.stack.frames import (
    Constant,
    Flow,
    NotAnalysable,
    ReturnAddress,
    StackAddress,
    State,
    TableAddress,
    TableEntry,
    Target,
    Value,
    jump_table,
    literal,
    signed,
    with_register,
)

RA, SP, GP, T0 = "x1", "x2", "x3", "x5"
BRANCHES = ("beq", "bne", "blt", "bge", "bltu", "bgeu", "c.beqz", "c.bnez")
STORES = re.compile(r"^(c\.)?(sb|sh|sw|swsp|fsw|fsd|fswsp|fsdsp)$")
INDEXED = re.compile(r"^(-?\d+)\((x\d+)\)$")
CALLER_SAVED = tuple(f"x{n}" for n in (1, *range(5, 8), *range(10, 18), *range(28, 32)))
SAVED_RETURN = (T0, ReturnAddress())
NATURAL_ALIGNMENT = 4


class RiscvFrames:
    """The rules of RV32."""

    def __init__(self, elf: Elf) -> None:
        self._elf = elf
        self._top = elf.symbol("__stack_top").address
        self._globals = Constant(elf.symbol("__global_pointer$").address)

    def entry(self) -> State:
        return State(0, {RA: ReturnAddress()})

    def flow(self, instruction: Instruction, state: State) -> Target:
        mnemonic, parts = instruction.mnemonic, instruction.operands.split(",")
        targets = () if instruction.target is None else (instruction.target,)
        if mnemonic in BRANCHES:
            return Flow.BRANCH, targets
        if mnemonic == "c.j" or (mnemonic == "jal" and parts[0] == "x0"):
            return Flow.JUMP, targets
        if mnemonic == "c.jal" or (mnemonic == "jal" and parts[0] == RA):
            return Flow.CALL, targets
        if mnemonic in ("jalr", "c.jr", "c.jalr"):
            return self._register_flow(instruction, parts, state)
        if mnemonic == "jal":
            # A prologue of libgcc's (-msave-restore): part of the function that it comes back to.
            return (Flow.JUMP if parts[0] == T0 else Flow.INDIRECT_CALL), targets
        if mnemonic in ("mret", "ebreak", "c.ebreak", "unimp", "c.unimp"):
            return (Flow.RETURN if mnemonic == "mret" else Flow.STOP), ()
        return Flow.NEXT, ()

    def _register_flow(self, instruction: Instruction, parts: list[str], state: State) -> Target:
        """Jumps through a register, whose value is known after `auipc` or `lui`, or comes from a table."""
        mnemonic = instruction.mnemonic
        link = RA if mnemonic == "c.jalr" else parts[0] if mnemonic == "jalr" else "x0"
        match = INDEXED.match(parts[-1])
        register, offset = (match[2], int(match[1])) if match else (parts[-1], 0)
        known = state.registers.get(register)
        if link == "x0" and offset == 0 and (register == RA or isinstance(known, ReturnAddress)):
            return Flow.RETURN, ()
        targets: tuple[int, ...] = ()
        if isinstance(known, Constant):
            targets = ((known.value + offset) & 0xFFFFFFFE,)
        elif isinstance(known, TableEntry) and offset == 0 and link == "x0":
            targets = jump_table(self._elf, known, instruction.address)
        if link == "x0":
            return (Flow.JUMP if targets else Flow.INDIRECT_JUMP), targets
        return (Flow.CALL if targets else Flow.INDIRECT_CALL), targets

    def step(self, instruction: Instruction, state: State) -> Iterator[State]:
        mnemonic, parts = instruction.mnemonic, instruction.operands.split(",")
        flow, _ = self.flow(instruction, state)
        if flow is Flow.CALL:
            # libgcc's division keeps its return address in t0, which its own callees leave alone.
            kept = {k: v for k, v in state.registers.items() if k not in CALLER_SAVED or (k, v) == SAVED_RETURN}
            yield State(state.depth, kept)
        elif mnemonic == "jal" and parts[0] == T0:
            yield with_register(state, T0, Constant(instruction.address + instruction.size))
        elif flow is not Flow.NEXT or STORES.match(mnemonic) or not parts[0].startswith("x"):
            yield state
        else:
            value = self._value(mnemonic, parts, instruction, with_register(state, GP, self._globals))
            if parts[0] != SP:
                yield with_register(state, parts[0], value)
            elif isinstance(value, StackAddress):
                yield State(value.depth, state.registers)
            elif isinstance(value, Constant) and value.value == self._top:
                yield with_register(state, SP, None, depth=0)
            elif isinstance(value, Constant):
                yield with_register(state, SP, value)
            else:
                raise NotAnalysable("sp takes a value that is not known at build time")

    def _value(self, mnemonic: str, parts: list[str], instruction: Instruction, state: State) -> Value | None:
        """What the destination holds afterwards."""
        match = INDEXED.match(parts[-1]) if mnemonic in ("lw", "c.lw") else None
        if match is None:
            return _computed(mnemonic, parts, instruction, state)
        base = _read(match[2], state)
        if isinstance(base, Constant):
            return literal(self._elf, base.value + int(match[1]))
        return TableEntry(base.base + int(match[1])) if isinstance(base, TableAddress) else None


def _computed(mnemonic: str, parts: list[str], instruction: Instruction, state: State) -> Value | None:
    """What the destination holds afterwards, as far as it matters for sp and for calls."""
    base = mnemonic.removeprefix("c.")
    if base in ("lui", "auipc"):
        upper = int(parts[-1], 0) << 12
        return Constant((upper + (instruction.address if base == "auipc" else 0)) & 0xFFFFFFFF)
    if base == "li":
        return Constant(int(parts[-1], 0) & 0xFFFFFFFF)
    if base == "mv":
        return _read(parts[1], state)
    two = len(parts) == 2
    first = _read(parts[0] if two else parts[1], state)
    if base in ("addi", "addi16sp", "addi4spn"):
        return _add(first, int(parts[-1], 0))
    if base == "andi" and isinstance(first, StackAddress):
        mask = -int(parts[-1], 0)
        return StackAddress(first.depth + mask - NATURAL_ALIGNMENT) if mask > 0 and mask & (mask - 1) == 0 else None
    second = _read(parts[-1], state) if base in ("add", "sub") else None
    if isinstance(second, Constant) and base == "add" and first is None:
        return TableAddress(second.value)
    if isinstance(second, Constant):
        return _add(first, signed(second.value) if base == "add" else -signed(second.value))
    if base == "add" and isinstance(first, Constant):
        return TableAddress(first.value) if second is None else _add(second, signed(first.value))
    return None


def _read(register: str, state: State) -> Value | None:
    if register == SP:
        return state.registers.get(SP, StackAddress(state.depth))
    return Constant(0) if register == "x0" else state.registers.get(register)


def _add(value: Value | None, amount: int) -> Value | None:
    if amount == 0:
        return value
    if isinstance(value, StackAddress):
        return StackAddress(value.depth - amount)
    if isinstance(value, TableEntry):
        return TableEntry(value.base, value.anchor + amount)
    if isinstance(value, TableAddress):
        return TableAddress(value.base + amount)
    return Constant((value.value + amount) & 0xFFFFFFFF) if isinstance(value, Constant) else None
