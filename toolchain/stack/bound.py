# SPDX-License-Identifier: Apache-2.0
"""The most stack that an image can use, proven over the call graph of its linked code.

Every function is followed instruction by instruction from its entry, with the depth of its stack; a call costs the
depth at that place and the callee's own bound. Libraries are code like all other. What cannot be bounded is refused:
recursion, calls of unknown functions, stack whose size is not known at build time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

from boards.board import Board
from compiler.errors import UserError
from toolchain.elf.disassembly import Code, Instruction
from toolchain.elf.file import Elf
from toolchain.stack.frames import Flow, Frames, NotAnalysable, State, joined
from toolchain.stack.frames_arm import ArmFrames
from toolchain.stack.frames_riscv import RiscvFrames

ALIGNMENT = 16
VISITS = 64


ARM_FRAME = 36
"""Bytes that an Arm core pushes when it takes an exception: 8 words, and one of alignment (Armv7-M manual, B1.5.7)."""
ARM_FLOAT_FRAME = 72
"""Bytes that it leaves for the float registers as well, unless start-up has told it not to (FPCCR.ASPEN)."""


@dataclass(frozen=True)
class StackBound:
    """Bytes of stack that the image needs: the deepest path of the program (`path`: function and its own depth there),
    its interrupt handlers as if all of them interrupted each other, and what the core pushes for each of these and for
    a fault in the last (`interrupt`; RISC-V cores push nothing). `bytes` is their sum, rounded up to 16."""

    program: int
    handlers: int
    interrupt: int
    path: tuple[tuple[str, int], ...]

    @property
    def bytes(self) -> int:
        return -(-(self.program + self.handlers + self.interrupt) // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class Use:
    """The stack use of a function: bytes, and the path to the deepest place."""

    bytes: int
    path: tuple[tuple[str, int], ...]


def stack_bound(elf: Elf, code: Code, board: Board, float_handlers: bool) -> StackBound:
    """The bound of an image that starts at Reset_Handler; `float_handlers`: handlers may use the float unit, so that
    exceptions keep room for its registers. UserError where there is none."""
    frames: Frames = ArmFrames(elf) if elf.machine == "EM_ARM" else RiscvFrames(elf)
    analysis = Analysis(elf, code, frames)
    # An application may handle every trap itself; nothing is then left of the default.
    roots = {symbol.address for symbol in elf.symbols if symbol.name in ("Reset_Handler", "Default_Handler")}
    program = max((analysis.use(root) for root in sorted(roots)), key=lambda use: use.bytes)
    handlers = [handler for handler in handlers_of(elf, code) if handler not in roots]
    frame = 0
    if elf.machine == "EM_ARM":
        frame = ARM_FRAME + (ARM_FLOAT_FRAME if float_handlers and board.core.float_unit != "none" else 0)
    used = sum(analysis.use(handler).bytes for handler in handlers)
    return StackBound(program.bytes, used, frame * (len(handlers) + 1), program.path)


def handlers_of(elf: Elf, code: Code) -> list[int]:
    """Where each interrupt enters: the code addresses in the vector table, or the targets of its jumps, and
    `trap_entry` on cores without one. A function that serves several interrupts is there as often: it may interrupt
    itself."""
    found = [symbol.address for symbol in elf.symbols if symbol.name == "trap_entry"]
    table = elf.section(".vectors")
    if table is not None:
        mask = ~1 if elf.machine == "EM_ARM" else ~0
        words = [elf.word(address) for address in range(table.address, table.end - 3, 4)]
        found += [word & mask for word in words if word and not table.address <= word < table.end]
        if elf.machine == "EM_RISCV":
            addresses = range(table.address, table.end - 3, 4)
            found += [at + jump_offset(word) for at, word in zip(addresses, words, strict=True) if is_jump(word)]
    return sorted(address for address in found if address in code.instructions)


def is_jump(word: int | None) -> TypeGuard[int]:
    """Whether a word is RISC-V's `j`: jal with x0 as its link register."""
    return word is not None and word & 0xFFF == 0x6F


def jump_offset(word: int) -> int:
    """Where a `j` goes, relative to its own address, in bytes."""
    offset = (word >> 20 & 0x7FE) | (word >> 9 & 0x800) | (word & 0xFF000)
    return offset - (0x100000 if word >> 31 else 0)


def constructors_of(elf: Elf) -> tuple[int, ...]:
    """What the start-up's `run_constructors` calls, one after another: the words of .init_array."""
    table = elf.section(".init_array")
    words = [] if table is None else [elf.word(at) for at in range(table.address, table.end, 4)]
    mask = ~1 if elf.machine == "EM_ARM" else ~0
    return tuple(word & mask for word in words if word is not None)


class Analysis:
    """Stack use of functions by entry address, computed once each."""

    def __init__(self, elf: Elf, code: Code, frames: Frames) -> None:
        self._code = code.instructions
        self._frames = frames
        self._names = {s.address: s.name for s in reversed(elf.symbols) if s.kind != "STT_OBJECT" and s.name[0] != "$"}
        self._constructors = constructors_of(elf)
        self._known: dict[int, Use] = {}
        self._open: list[int] = []

    def name(self, address: int) -> str:
        return self._names.get(address, f"{address:#x}")

    def use(self, entry: int) -> Use:
        """The bound of the function at `entry`. UserError where there is none."""
        if entry in self._known:
            return self._known[entry]
        if entry in self._open:
            cycle = " -> ".join(self.name(at) for at in [*self._open[self._open.index(entry) :], entry])
            raise UserError(
                "the stack has no bound: functions call themselves", where=cycle, hint="replace recursion by a loop"
            )
        self._open.append(entry)
        own, deepest = 0, Use(0, ())
        for depth, callee in self._follow(entry):
            own = max(own, depth)
            if callee is not None:
                inner = self.use(callee)
                if depth + inner.bytes > deepest.bytes:
                    deepest = Use(depth + inner.bytes, ((self.name(entry), depth), *inner.path))
        if own >= deepest.bytes:
            deepest = Use(own, ((self.name(entry), own),))
        self._open.pop()
        self._known[entry] = deepest
        return deepest

    def _follow(self, entry: int) -> list[tuple[int, int | None]]:
        """The depth at each place of a function, with what is called there."""
        seen: dict[int, State] = {}
        visits: dict[int, int] = {}
        found: dict[tuple[int, int | None], None] = {}
        work = [(entry, self._frames.entry(), False)]
        while work:
            at, state, after_call = work.pop()
            before = seen.get(at)
            state = state if before is None else joined(before, state)
            if state == before:
                continue
            seen[at] = state
            visits[at] = visits.get(at, 0) + 1
            instruction = self._code.get(at)
            if instruction is None:
                if after_call:
                    continue
                raise self._refuse(entry, f"control runs into data at {at:#x}")
            if visits[at] > VISITS:
                raise self._refuse(entry, f"the stack grows in a loop at {instruction}")
            work += self._advance(entry, instruction, state, found)
        return list(found)

    def _advance(
        self, entry: int, instruction: Instruction, state: State, found: dict[tuple[int, int | None], None]
    ) -> list[tuple[int, State, bool]]:
        """What follows an instruction; its depth and call go into `found`."""
        try:
            flow, targets = self._frames.flow(instruction, state)
            after = list(self._frames.step(instruction, state))
        except NotAnalysable as error:
            raise self._refuse(entry, f"{error} at {instruction}") from error
        for one in after:
            found[max(one.depth, state.depth), None] = None
        behind = instruction.address + instruction.size
        if flow in (Flow.CALL, Flow.INDIRECT_CALL) and self.name(entry) == "run_constructors":
            flow, targets = Flow.CALL, self._constructors
        if flow in (Flow.INDIRECT_CALL, Flow.INDIRECT_JUMP):
            raise self._refuse(entry, f"an indirect call at {instruction}")
        following: list[tuple[int, State, bool]] = []
        if flow is Flow.CALL:
            for target in targets:
                found[state.depth, target] = None
        if flow in (Flow.NEXT, Flow.BRANCH, Flow.CALL):
            following += [(behind, one, flow is Flow.CALL) for one in after]
        if flow in (Flow.BRANCH, Flow.JUMP):
            following += [(target, one, False) for target in targets for one in after]
        return following

    def _refuse(self, entry: int, why: str) -> UserError:
        chain = " -> ".join(self.name(at) for at in self._open)
        return UserError(
            f"the stack of {self.name(entry)} has no bound: {why}",
            where=chain,
            hint="call functions by name, and give arrays on the stack a constant size",
        )
