# SPDX-License-Identifier: Apache-2.0
"""Stack and flow of RV32 code, from objdump's text with numeric registers and no aliases. RISC-V manual, volume I."""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolchain.disassembly import Instruction
from toolchain.elf import Elf
from toolchain.frames import Constant, Flow, NotAnalysable, StackAddress, State, Value, signed, with_register

RA, SP, GP = "x1", "x2", "x3"
BRANCHES = ("beq", "bne", "blt", "bge", "bltu", "bgeu", "c.beqz", "c.bnez")
STORES = re.compile(r"^(c\.)?(sb|sh|sw|swsp|fsw|fsd|fswsp|fsdsp)$")
INDEXED = re.compile(r"^(-?\d+)\((x\d+)\)$")
CALLER_SAVED = tuple(f"x{n}" for n in (1, *range(5, 8), *range(10, 18), *range(28, 32)))
NATURAL_ALIGNMENT = 4


class RiscvFrames:
    """The rules of RV32."""

    def __init__(self, elf: Elf) -> None:
        self._top = elf.symbol("__stack_top").address
        self._globals = Constant(elf.symbol("__global_pointer$").address)

    def flow(self, instruction: Instruction, state: State) -> tuple[Flow, int | None]:
        mnemonic, parts = instruction.mnemonic, instruction.operands.split(",")
        if mnemonic in BRANCHES:
            return Flow.BRANCH, instruction.target
        if mnemonic == "c.j" or (mnemonic == "jal" and parts[0] == "x0"):
            return Flow.JUMP, instruction.target
        if mnemonic == "c.jal" or (mnemonic == "jal" and parts[0] == RA):
            return Flow.CALL, instruction.target
        if mnemonic in ("jalr", "c.jr", "c.jalr"):
            return _register_flow(mnemonic, parts, state)
        if mnemonic == "jal":
            return Flow.INDIRECT_CALL, None
        if mnemonic in ("mret", "ebreak", "c.ebreak", "unimp", "c.unimp"):
            return (Flow.RETURN if mnemonic == "mret" else Flow.STOP), None
        return Flow.NEXT, None

    def step(self, instruction: Instruction, state: State) -> Iterator[State]:
        mnemonic, parts = instruction.mnemonic, instruction.operands.split(",")
        flow, _ = self.flow(instruction, state)
        if flow is Flow.CALL:
            yield State(state.depth, {k: v for k, v in state.registers.items() if k not in CALLER_SAVED})
        elif flow is not Flow.NEXT or STORES.match(mnemonic) or not parts[0].startswith("x"):
            yield state
        else:
            value = _value(mnemonic, parts, instruction, with_register(state, GP, self._globals))
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


def _register_flow(mnemonic: str, parts: list[str], state: State) -> tuple[Flow, int | None]:
    """Jumps through a register, whose value is known after `auipc` or `lui`."""
    link = RA if mnemonic == "c.jalr" else parts[0] if mnemonic == "jalr" else "x0"
    match = INDEXED.match(parts[-1])
    register, offset = (match[2], int(match[1])) if match else (parts[-1], 0)
    if link == "x0" and register == RA and offset == 0:
        return Flow.RETURN, None
    known = state.registers.get(register)
    target = (known.value + offset) & 0xFFFFFFFE if isinstance(known, Constant) else None
    if link == "x0":
        return (Flow.INDIRECT_JUMP, None) if target is None else (Flow.JUMP, target)
    return (Flow.INDIRECT_CALL, None) if target is None else (Flow.CALL, target)


def _value(mnemonic: str, parts: list[str], instruction: Instruction, state: State) -> Value | None:
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
    if isinstance(second, Constant):
        return _add(first, signed(second.value) if base == "add" else -signed(second.value))
    if base == "add" and isinstance(first, Constant):
        return _add(second, signed(first.value))
    return None


def _read(register: str, state: State) -> Value | None:
    if register == SP:
        return state.registers.get(SP, StackAddress(state.depth))
    return Constant(0) if register == "x0" else state.registers.get(register)


def _add(value: Value | None, amount: int) -> Value | None:
    if isinstance(value, StackAddress):
        return StackAddress(value.depth - amount)
    return Constant((value.value + amount) & 0xFFFFFFFF) if isinstance(value, Constant) else None
