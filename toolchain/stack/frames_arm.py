# SPDX-License-Identifier: Apache-2.0
"""Stack and flow of Thumb code (Armv6-M to Armv8.1-M), from objdump's text. Armv7-M and Armv8-M manuals."""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolchain.elf.disassembly import Instruction
from toolchain.elf.file import Elf
from toolchain.stack.frames import (
    Constant,
    Flow,
    NotAnalysable,
    StackAddress,
    State,
    TableEntry,
    Target,
    Value,
    jump_table,
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
TWO_REGISTERS = re.compile(r"\[(\w+), (\w+)(, lsl #2)?\]")
WRITTEN_BACK = re.compile(r"^(\w+)!|\[(\w+)[^]]*\]!|\[(\w+)\], #")
PRE_INDEXED = re.compile(r"\[sp, #(-?\d+)\]!")
POST_INDEXED = re.compile(r"\[sp\], #(-?\d+)")
TWO_RESULTS = re.compile(r"^(ldrd|umull|smull|umlal|smlal|umaal|smlsld|vmov$|vmlaldav|vaddlv)")
READS_ONLY = re.compile(
    r"^(str(?!ex)|stm|cmp|cmn|tst|teq|push|vst|vpush|vcmp|it[te]*$|bl?x?$|cbn?z|nop|dsb|dmb|isb|cps|msr|svc|udf)"
)
CALL_CLOBBERS = ("r0", "r1", "r2", "r3", "ip", "lr")
NATURAL_ALIGNMENT = 4


class ArmFrames:
    """The rules of Thumb."""

    def __init__(self, elf: Elf) -> None:
        self._elf = elf
        self._top = elf.symbol("__stack_top").address

    def entry(self) -> State:
        return State(0, {})

    def flow(self, instruction: Instruction, state: State) -> Target:
        mnemonic, condition = split(instruction.mnemonic)
        flow, targets = self._plain_flow(mnemonic, instruction, state)
        if condition and flow in (Flow.JUMP, Flow.RETURN):
            return Flow.BRANCH, targets
        return flow, targets

    def _plain_flow(self, mnemonic: str, instruction: Instruction, state: State) -> Target:
        targets: tuple[int, ...] = () if instruction.target is None else (instruction.target,)
        if mnemonic == "b":
            return Flow.JUMP, targets
        if mnemonic in ("cbz", "cbnz") or (mnemonic.startswith(("wls", "le")) and targets):
            return Flow.BRANCH, targets
        if mnemonic in ("bl", "blx") and targets:
            return Flow.CALL, targets
        if mnemonic in ("bx", "mov") and instruction.operands in ("lr", "pc, lr"):
            return Flow.RETURN, ()
        if mnemonic in ("bx", "blx") or (mnemonic == "mov" and instruction.operands.startswith("pc,")):
            targets = self._places(instruction, state.registers.get(instruction.operands.split(", ")[-1]))
            if mnemonic == "blx":
                return (Flow.CALL if len(targets) == 1 else Flow.INDIRECT_CALL), targets
            return (Flow.JUMP if targets else Flow.INDIRECT_JUMP), targets
        if mnemonic in ("tbb", "tbh"):
            return Flow.JUMP, self._branch_table(instruction, 1 if mnemonic == "tbb" else 2)
        if mnemonic == "udf":
            return Flow.STOP, ()
        return self._load_flow(mnemonic, instruction, state)

    def _load_flow(self, mnemonic: str, instruction: Instruction, state: State) -> Target:
        """Loads of pc."""
        if mnemonic in ("pop", "ldmia", "ldmfd"):
            return (Flow.RETURN if "pc" in register_list(instruction.operands) else Flow.NEXT), ()
        if mnemonic == "ldr" and instruction.operands.startswith("pc, "):
            if POST_INDEXED.search(instruction.operands):
                return Flow.RETURN, ()
            targets = self._places(instruction, self._loaded(instruction, state))
            return (Flow.JUMP if targets else Flow.INDIRECT_JUMP), targets
        return Flow.NEXT, ()

    def _places(self, instruction: Instruction, value: Value | None) -> tuple[int, ...]:
        """The code addresses that a value stands for."""
        if isinstance(value, Constant):
            return (value.value & ~1,)
        return jump_table(self._elf, value, instruction.address) if isinstance(value, TableEntry) else ()

    def _branch_table(self, instruction: Instruction, size: int) -> tuple[int, ...]:
        """The targets of `tbb` and `tbh`, whose table of half offsets follows and ends before the first target."""
        base = instruction.address + instruction.size
        targets: list[int] = []
        while not targets or base + size * len(targets) < min(targets):
            word = self._elf.word(base + size * len(targets) & ~3)
            if word is None:
                break
            entry = word >> 8 * (base + size * len(targets) & 3) & (1 << 8 * size) - 1
            targets.append(base + 2 * entry)
        return tuple(sorted(set(targets)))

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
        written = WRITTEN_BACK.search(operands)
        if written:
            state = with_register(state, written[1] or written[2] or written[3], None)
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
        if TWO_RESULTS.match(base) and len(parts) > 1:
            after = with_register(after, parts[1], None)
        if base.startswith("ldm") or parts[0].startswith("{"):
            gone = register_list(instruction.operands)
            after = State(after.depth, {k: v for k, v in after.registers.items() if k not in gone})
        return after

    def _value(self, base: str, parts: list[str], instruction: Instruction, state: State) -> Value | None:
        """What a register holds afterwards, as far as it matters for sp."""
        if base == "ldr":
            return self._loaded(instruction, state)
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

    def _loaded(self, instruction: Instruction, state: State) -> Value | None:
        """What `ldr` loads: a literal, or an entry of a table whose address is known."""
        match = PC_RELATIVE.search(instruction.operands)
        if match:
            return literal(self._elf, ((instruction.address + 4) & ~3) + int(match[1]))
        match = TWO_REGISTERS.search(instruction.operands)
        if match is None:
            return None
        base, index = (state.registers.get(register) for register in match.group(1, 2))
        known = base if isinstance(base, Constant) or match[3] else index
        return TableEntry(known.value) if isinstance(known, Constant) else None


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
