# SPDX-License-Identifier: Apache-2.0
"""Stack and flow of Thumb code (Armv6-M to Armv8.1-M), from objdump's text. Armv7-M and Armv8-M manuals."""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolchain.disassembly import Instruction
from toolchain.elf import Elf
from toolchain.frames import (
    Constant,
    Flow,
    NotAnalysable,
    StackAddress,
    State,
    Value,
    literal,
    signed,
    with_register,
)

CONDITIONS = "eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le"
CONDITIONAL = re.compile(
    rf"^(push|pop|ldmia|ldmfd|stmdb|stmfd|vpush|vpop|vldmia|vstmdb|sub|subw|add|addw|mov|movw|movt|ldr|str|bx|blx|bl|b"
    rf"|strd|ldrd)(?:\.f?\d+)?({CONDITIONS})?(?:\.[wn])?$"
)
IMMEDIATE = re.compile(r"#(-?(?:0x[0-9a-f]+|\d+))$")
PC_RELATIVE = re.compile(r"\[pc, #(-?\d+)\]")
PRE_INDEXED = re.compile(r"\[sp, #(-?\d+)\]!")
POST_INDEXED = re.compile(r"\[sp\], #(-?\d+)")
READS_ONLY = re.compile(r"^(str|stm|cmp|cmn|tst|teq|push|vst|vpush|it|b|cb|nop|dsb|dmb|isb|cps|msr|svc|udf)")
CALL_CLOBBERS = ("r0", "r1", "r2", "r3", "ip", "lr")
NATURAL_ALIGNMENT = 4


class ArmFrames:
    """The rules of Thumb."""

    def __init__(self, elf: Elf) -> None:
        self._elf = elf
        self._top = elf.symbol("__stack_top").address

    def flow(self, instruction: Instruction, state: State) -> tuple[Flow, int | None]:
        mnemonic, condition = split(instruction.mnemonic)
        flow, target = self._plain_flow(mnemonic, instruction, state)
        if condition and flow is not Flow.CALL and flow is not Flow.NEXT:
            if flow is Flow.INDIRECT_JUMP:
                return flow, None
            return Flow.BRANCH, target if flow is Flow.JUMP else None
        return flow, target

    def _plain_flow(self, mnemonic: str, instruction: Instruction, state: State) -> tuple[Flow, int | None]:
        operands = instruction.operands
        if mnemonic == "b":
            return Flow.JUMP, instruction.target
        if mnemonic in ("cbz", "cbnz") or (mnemonic.startswith(("wls", "le")) and instruction.target is not None):
            return Flow.BRANCH, instruction.target
        if mnemonic in ("bl", "blx") and instruction.target is not None:
            return Flow.CALL, instruction.target
        if mnemonic == "blx":
            known = state.registers.get(operands)
            return (Flow.CALL, known.value & ~1) if isinstance(known, Constant) else (Flow.INDIRECT_CALL, None)
        if mnemonic in ("bx", "mov") and operands in ("lr", "pc, lr"):
            return Flow.RETURN, None
        if mnemonic == "bx" or (mnemonic == "mov" and operands.startswith("pc,")):
            known = state.registers.get(operands.split(", ")[-1])
            return (Flow.JUMP, known.value & ~1) if isinstance(known, Constant) else (Flow.INDIRECT_JUMP, None)
        if mnemonic in ("tbb", "tbh"):
            return Flow.TABLE, None
        if mnemonic == "udf":
            return Flow.STOP, None
        return self._load_flow(mnemonic, instruction)

    def _load_flow(self, mnemonic: str, instruction: Instruction) -> tuple[Flow, int | None]:
        """Loads of pc."""
        if mnemonic in ("pop", "ldmia", "ldmfd"):
            return (Flow.RETURN if "pc" in register_list(instruction.operands) else Flow.NEXT), None
        if mnemonic == "ldr" and instruction.operands.startswith("pc, "):
            if POST_INDEXED.search(instruction.operands):
                return Flow.RETURN, None
            value = self._literal(instruction)
            return (Flow.JUMP, value.value & ~1) if isinstance(value, Constant) else (Flow.INDIRECT_JUMP, None)
        return Flow.NEXT, None

    def step(self, instruction: Instruction, state: State) -> Iterator[State]:
        mnemonic, condition = split(instruction.mnemonic)
        after = self._effect(mnemonic, instruction, state)
        yield after
        if condition and mnemonic != "b" and after != state:
            yield state

    def _effect(self, mnemonic: str, instruction: Instruction, state: State) -> State:
        operands = instruction.operands
        if mnemonic in ("bl", "blx"):
            return State(state.depth, {k: v for k, v in state.registers.items() if k not in CALL_CLOBBERS})
        moved = sp_move(mnemonic, operands)
        if moved is not None:
            kept = state.registers
            if mnemonic in ("pop", "ldmia", "ldmfd"):
                kept = {k: v for k, v in kept.items() if k not in register_list(operands)}
            return State(state.depth + moved, kept)
        parts = operands.split(", ")
        if parts[0] == "sp" and not READS_ONLY.match(mnemonic):
            return self._write_sp(mnemonic, parts, state)
        if "sp!" in operands:
            raise NotAnalysable("sp is changed in a way that is not understood")
        if READS_ONLY.match(mnemonic) or not parts[0]:
            return state
        return self._write_register(mnemonic, parts, instruction, state)

    def _write_sp(self, mnemonic: str, parts: list[str], state: State) -> State:
        """`mov sp, r`, `add|sub sp, [sp,] #n|r`, `bic sp, sp, #n`."""
        source = parts[-1]
        known = state.registers.get(source)
        immediate = IMMEDIATE.match(source)
        base = mnemonic.rstrip("sw") if mnemonic in ("adds", "subs", "addw", "subw") else mnemonic
        if base in ("add", "sub") and parts[1:-1] in ([], ["sp"]):
            amount = int(immediate[1], 0) if immediate else signed(known.value) if isinstance(known, Constant) else None
            if amount is not None:
                return State(state.depth + (amount if base == "sub" else -amount), state.registers)
        if base in ("add", "sub") and immediate and len(parts) == 3:
            anchor = state.registers.get(parts[1])
            if isinstance(anchor, StackAddress):
                amount = int(immediate[1], 0)
                return State(anchor.depth + (amount if base == "sub" else -amount), state.registers)
        if base == "mov" and isinstance(known, StackAddress):
            return State(known.depth, state.registers)
        if base == "mov" and isinstance(known, Constant) and known.value == self._top:
            return State(0, state.registers)
        if base == "bic" and immediate:
            return State(state.depth + int(immediate[1], 0) + 1 - NATURAL_ALIGNMENT, state.registers)
        raise NotAnalysable("sp takes a value that is not known at build time")

    def _write_register(self, mnemonic: str, parts: list[str], instruction: Instruction, state: State) -> State:
        base = re.sub(r"\.[wn]$", "", mnemonic)
        value = self._value(base, parts, instruction, state)
        after = with_register(state, parts[0], value)
        if base in ("ldrd", "umull", "smull", "umlal", "smlal", "smlald") and len(parts) > 1:
            after = with_register(after, parts[1], None)
        if base.startswith("ldm") or parts[0].startswith("{"):
            gone = register_list(instruction.operands)
            after = State(after.depth, {k: v for k, v in after.registers.items() if k not in gone})
        return after

    def _value(self, base: str, parts: list[str], instruction: Instruction, state: State) -> Value | None:
        """What a register holds afterwards, as far as it matters for sp."""
        if base == "ldr":
            return self._literal(instruction)
        source: Value | None = None
        if len(parts) > 1:
            register = parts[1] if len(parts) > 2 or base in ("mov", "movs") else parts[0]
            source = StackAddress(state.depth) if register == "sp" else state.registers.get(register)
        immediate = IMMEDIATE.match(parts[-1])
        number = int(immediate[1], 0) if immediate else None
        if base in ("mov", "movs", "movw") and number is not None:
            return Constant(number & 0xFFFFFFFF)
        if base in ("mov", "movs"):
            return source
        if isinstance(source, StackAddress) and number is not None:
            return _moved_address(base, source, number, parts)
        if isinstance(source, Constant):
            return _computed(base, source.value, number)
        return None

    def _literal(self, instruction: Instruction) -> Value | None:
        match = PC_RELATIVE.search(instruction.operands)
        return literal(self._elf, ((instruction.address + 4) & ~3) + int(match[1])) if match else None


def _moved_address(base: str, source: StackAddress, number: int, parts: list[str]) -> Value | None:
    if base in ("add", "adds", "addw"):
        return StackAddress(source.depth - number)
    if base in ("sub", "subs", "subw"):
        return StackAddress(source.depth + number)
    if base in ("bic", "bics"):
        return StackAddress(source.depth + number + 1 - NATURAL_ALIGNMENT)
    if base == "bfc" and parts[1] == "#0":
        return StackAddress(source.depth + (1 << number) - NATURAL_ALIGNMENT)
    if base in ("lsrs", "lsr"):
        return StackAddress(source.depth + (1 << number) - NATURAL_ALIGNMENT)
    if base in ("lsls", "lsl"):
        return source
    return None


def _computed(base: str, value: int, number: int | None) -> Value | None:
    if base in ("negs", "rsbs") and (number is None or number == 0):
        return Constant(-value & 0xFFFFFFFF)
    if base in ("mvns", "mvn"):
        return Constant(~value & 0xFFFFFFFF)
    if number is None:
        return None
    results = {
        "movt": (number << 16) | (value & 0xFFFF),
        "add": value + number,
        "sub": value - number,
        "lsl": value << number,
        "lsr": value >> number,
    }
    name = base.rstrip("s") if base not in results else base
    return Constant(results[name] & 0xFFFFFFFF) if name in results else None


def split(mnemonic: str) -> tuple[str, str]:
    """A mnemonic without width suffix, and its condition; only what matters for stack and flow is taken apart."""
    match = CONDITIONAL.match(mnemonic)
    return (match[1], match[2] or "") if match else (mnemonic, "")


def register_list(operands: str) -> tuple[str, ...]:
    """The registers in braces, ranges spelled out."""
    inside = operands[operands.find("{") + 1 : operands.find("}")] if "{" in operands else ""
    found: list[str] = []
    for part in filter(None, inside.split(", ")):
        match = re.match(r"^([a-z])(\d+)-[a-z](\d+)$", part)
        found += [f"{match[1]}{n}" for n in range(int(match[2]), int(match[3]) + 1)] if match else [part]
    return tuple(found)


def sp_move(mnemonic: str, operands: str) -> int | None:
    """By how many bytes a push, pop or indexed access moves sp down; None for other instructions."""
    size = sum({"d": 8, "q": 16}.get(register[0], 4) for register in register_list(operands))
    if mnemonic in ("push", "vpush") or (mnemonic in ("stmdb", "stmfd", "vstmdb") and operands.startswith("sp!")):
        return size
    if mnemonic in ("pop", "vpop") or (mnemonic in ("ldmia", "ldmfd", "vldmia") and operands.startswith("sp!")):
        return -size
    indexed = PRE_INDEXED.search(operands) or POST_INDEXED.search(operands)
    return -int(indexed[1]) if indexed else None
