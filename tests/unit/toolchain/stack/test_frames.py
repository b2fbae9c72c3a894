# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from toolchain.elf.disassembly import Instruction, parse
from toolchain.elf.file import Elf, Section, Segment, Symbol
from toolchain.stack.frames import Constant, Flow, NotAnalysable, ReturnAddress, StackAddress, State, TableEntry, joined
from toolchain.stack.frames_arm import ArmFrames, register_list, sp_move, split
from toolchain.stack.frames_riscv import RiscvFrames

TOP = 0x20001000
TABLE = b"".join(word.to_bytes(4, "little") for word in (0x100, 0x10C, 0x104, 0x900))


def image(machine: str) -> Elf:
    symbols = (
        Symbol("__global_pointer$", 0x20000800, 0, "STT_NOTYPE", ".data"),
        Symbol("__stack_top", TOP, 0, "STT_NOTYPE", ".stack"),
        Symbol("f", 0x100, 0x40, "STT_FUNC", ".text"),
    )
    sections = (Section(".text", 0x100, 0x40, 0x100, 4, True),)
    return Elf(machine, 32, 0, None, sections, symbols, (), (Segment(0x800, TABLE, 0x800),))


def instruction(text: str, size: int = 4, target: int | None = None) -> Instruction:
    mnemonic, _, operands = text.partition(" ")
    return Instruction(0x110, size, mnemonic, operands, target)


def after(frames: ArmFrames | RiscvFrames, text: str, state: State) -> list[State]:
    return list(frames.step(instruction(text), state))


@pytest.mark.parametrize(
    ("text", "depth"),
    (
        ("push {r4, r5, r6, r7, lr}", 20),
        ("stmdb sp!, {r4, r5, lr}", 12),
        ("vpush {d8-d15}", 64),
        ("str.w lr, [sp, #-4]!", 4),
        ("strd r4, r5, [sp, #-16]!", 16),
        ("sub sp, #40", 40),
        ("sub.w sp, sp, #1024", 1024),
        ("subw sp, sp, #1028", 1028),
        ("add sp, #8", -8),
        ("pop {r4, pc}", -8),
        ("ldr.w pc, [sp], #4", -4),
        ("vpop {d8}", -8),
        ("vldmia sp!, {s16-s17}", -8),
    ),
)
def test_thumb_moves_of_sp(text: str, depth: int) -> None:
    frames = ArmFrames(image("EM_ARM"))
    assert [state.depth for state in after(frames, text, State(100, {}))] == [100 + depth]


def test_thumb_frames_of_computed_size() -> None:
    frames = ArmFrames(image("EM_ARM"))
    state = State(8, {"r4": Constant(0xFFFFF000), "r7": StackAddress(8), "r5": StackAddress(200)})
    assert after(frames, "add sp, r4", state)[0].depth == 8 + 4096
    assert after(frames, "mov sp, r5", state)[0].depth == 200
    assert after(frames, "bic.w r4, r5, #63", state)[0].registers["r4"] == StackAddress(260)
    assert after(frames, "mov r7, sp", state)[0].registers["r7"] == StackAddress(8)
    for text in ("str r1, [r5, #4]!", "ldr r1, [r5], #4", "stmia r5!, {r0, r1}", "umull r0, r5, r1, r2", "movs r5, #1"):
        assert after(frames, text, state)[0].registers.get("r5") != StackAddress(200), text
    assert after(frames, "subeq.w sp, sp, #16", state) == [State(24, state.registers), state]
    assert after(frames, "mov sp, r0", State(8, {"r0": Constant(TOP)}))[0].depth == 0
    for text in ("mov sp, r9", "sub.w sp, sp, r9", "add.w sp, r9, #8"):
        with pytest.raises(NotAnalysable):
            after(frames, text, state)


def test_thumb_flow() -> None:
    frames = ArmFrames(image("EM_ARM"))
    known = State(0, {"r3": Constant(0x121), "r1": TableEntry(0x800)})
    expected = {
        "bx lr": (Flow.RETURN, ()),
        "bxeq lr": (Flow.BRANCH, ()),
        "pop {r4, pc}": (Flow.RETURN, ()),
        "popne {r4, pc}": (Flow.BRANCH, ()),
        "bx r3": (Flow.JUMP, (0x120,)),
        "blx r3": (Flow.CALL, (0x120,)),
        "blx r4": (Flow.INDIRECT_CALL, ()),
        "mov pc, r1": (Flow.JUMP, (0x100, 0x104, 0x10C)),
        "mov pc, r2": (Flow.INDIRECT_JUMP, ()),
        "adds r0, r1, r2": (Flow.NEXT, ()),
    }
    for text, flow in expected.items():
        assert frames.flow(instruction(text), known) == flow, text
    assert frames.flow(instruction("bls.n 120 <f+0x20>", 2, 0x120), known) == (Flow.BRANCH, (0x120,))
    assert frames.flow(instruction("bl 120 <f+0x20>", 4, 0x120), known) == (Flow.CALL, (0x120,))
    assert frames.flow(instruction("letp lr, 120 <f+0x20>", 4, 0x120), known) == (Flow.BRANCH, (0x120,))


def test_riscv_moves_of_sp() -> None:
    frames = RiscvFrames(image("EM_RISCV"))
    state = State(16, {"x8": StackAddress(0), "x5": Constant(0xFFFFF000)})
    assert after(frames, "addi x2,x2,-32", state)[0].depth == 48
    assert after(frames, "c.addi16sp x2,64", state)[0].depth == -48
    assert after(frames, "c.add x2,x5", state)[0].depth == 16 + 4096
    assert after(frames, "addi x2,x8,-64", state)[0].depth == 64
    assert after(frames, "andi x2,x2,-64", state)[0].depth == 16 + 60
    assert after(frames, "c.addi4spn x9,x2,12", state)[0].registers["x9"] == StackAddress(4)
    assert after(frames, "addi x2,x3,2047", State(9, {}))[0].registers["x2"] == Constant(0x20000FFF)
    for text in ("sub x2,x2,x9", "c.mv x2,x15"):
        with pytest.raises(NotAnalysable):
            after(frames, text, state)


def test_riscv_flow() -> None:
    frames = RiscvFrames(image("EM_RISCV"))
    state = State(0, {"x6": Constant(0x10000), "x14": TableEntry(0x800), "x5": ReturnAddress()})
    expected = {
        "c.jr x1": (Flow.RETURN, ()),
        "jalr x0,0(x1)": (Flow.RETURN, ()),
        "jalr x0,0(x5)": (Flow.RETURN, ()),
        "jalr x1,-16(x6)": (Flow.CALL, (0xFFF0,)),
        "c.jr x14": (Flow.JUMP, (0x100, 0x104, 0x10C)),
        "c.jr x15": (Flow.INDIRECT_JUMP, ()),
        "c.jalr x15": (Flow.INDIRECT_CALL, ()),
        "mret": (Flow.RETURN, ()),
        "c.ebreak": (Flow.STOP, ()),
    }
    for text, flow in expected.items():
        assert frames.flow(instruction(text), state) == flow, text
    assert frames.flow(instruction("jal x7,120 <f>", 4, 0x120), state)[0] is Flow.INDIRECT_CALL


def test_what_a_variable_holds_at_first_is_not_known() -> None:
    """A pointer in .data, which start-up copies to RAM, may have another value by the time of the call."""
    known = image("EM_RISCV")
    known = replace(known, segments=(*known.segments, Segment(0x900, bytes([4, 1, 0, 0]), 0x20000800)))
    frames = RiscvFrames(known)
    for base, found in (("x3", None), ("x8", Constant(0x100))):
        (state,) = after(frames, f"lw x15,0({base})", State(0, {"x8": Constant(0x800)}))
        assert state.registers.get("x15") == found


def test_riscv_prologues_of_libgcc() -> None:
    """`jal t0` goes to the prologue, which comes back by `jr t0`; both are parts of the function."""
    frames = RiscvFrames(image("EM_RISCV"))
    call = instruction("jal x5,120 <f>", 4, 0x120)
    assert frames.flow(call, State(0, {})) == (Flow.JUMP, (0x120,))
    (inside,) = frames.step(call, State(0, {}))
    assert frames.flow(instruction("c.jr x5"), inside) == (Flow.JUMP, (call.address + 4,))
    (behind,) = frames.step(instruction("c.jal 130 <g>", 2, 0x130), inside)
    assert frames.flow(instruction("c.jr x5"), behind) == (Flow.INDIRECT_JUMP, ())


def test_where_two_ways_meet_less_is_known() -> None:
    one = State(8, {"r0": Constant(1), "r1": Constant(2)})
    assert joined(one, State(16, {"r0": Constant(1), "r1": Constant(3)})) == State(16, {"r0": Constant(1)})


def test_names_are_taken_apart() -> None:
    assert split("popne") == ("pop", "ne") and split("bls.n") == ("b", "ls") and split("bl") == ("bl", "")
    assert split("sub.w") == ("sub", "") and split("lsls") == ("lsls", "")
    assert register_list("sp!, {r4, d8-d10, lr}") == ("r4", "d8", "d9", "d10", "lr")
    assert sp_move("ldr", "r0, [sp, #8]") is None


def test_objdump_is_parsed() -> None:
    text = (
        "00000100 <f>:\n"
        "     100:\tb580      \tpush\t{r7, lr}\n"
        "     102:\tf7ff fffd \tbl\t100 <f>\n"
        "     106:\t4802      \tldr\tr0, [pc, #8]\t@ (110 <f+0x10>)\n"
        "     108:\t00000042 \t.word\t0x00000042\n"
        "     10c:\ted91 1f00 \t\t\t@ <UNDEFINED> instruction: 0xed911f00\n"
    )
    code = parse(text)
    assert sorted(code) == [0x100, 0x102, 0x106, 0x10C]
    assert (code[0x102].size, code[0x102].target) == (4, 0x100)
    assert code[0x106].operands == "r0, [pc, #8]" and code[0x106].target is None
    assert "UNDEFINED" in code[0x10C].operands
    riscv = parse("80000000:\t0240006f          \tjal\tx0,80000024 <Reset_Handler>\n")
    assert riscv[0x80000000].target == 0x80000024 and str(riscv[0x80000000]).startswith("0x80000000: jal x0,")
