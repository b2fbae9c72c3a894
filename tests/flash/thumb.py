# SPDX-License-Identifier: Apache-2.0
"""A few of Armv6-M's instructions, enough for the small programs that clients put into a chip's RAM (Armv6-M manual,
chapter A6)."""

from __future__ import annotations

from typing import Protocol

LIMIT = 100_000
SP, LR, PC = 13, 14, 15


class Bus(Protocol):
    """Memory by words and halfwords."""

    def load(self, address: int, size: int) -> int: ...
    def store(self, address: int, size: int, value: int) -> None: ...


def call(bus: Bus, start: int, stack: int) -> None:
    """Runs from `start` until it returns. AssertionError for an instruction that is not known here."""
    home = 0xFFFFFFF0
    r = [0] * 16
    r[SP], r[LR], r[PC] = stack, home | 1, start & ~1
    zero = carry = False
    for _ in range(LIMIT):
        at = r[PC]
        if at == home:
            return
        code = bus.load(at, 2)
        r[PC] = at + 2
        top, reg, small = code >> 11, code >> 8 & 7, code & 0xFF
        if top == 0b01001:  # LDR (literal)
            r[reg] = bus.load((at + 4 & ~3) + 4 * small, 4)
        elif top in (0b11000, 0b11001):  # STM, LDM
            for i in range(8):
                if small >> i & 1:
                    if top & 1:
                        r[i] = bus.load(r[reg], 4)
                    else:
                        bus.store(r[reg], 4, r[i])
                    r[reg] += 4
        elif top in (0b00101, 0b00111):  # CMP, SUBS (immediate)
            found = r[reg] - small & 0xFFFFFFFF
            zero, carry = found == 0, r[reg] >= small
            if top == 0b00111:
                r[reg] = found
        elif top == 0b11100:  # B
            r[PC] = at + 4 + 2 * ((code & 0x7FF) - (code << 1 & 0x800))
        elif code >> 12 == 0b1101 and reg in (0, 1, 2, 3) and code >> 11 & 1 == 0:  # BEQ, BNE, BCS, BCC
            if (zero, not zero, carry, not carry)[reg]:
                r[PC] = at + 4 + 2 * (small - (small << 1 & 0x100))
        elif code >> 8 == 0b01000110:  # MOV
            r[code & 7 | code >> 4 & 8] = r[code >> 3 & 15]
        elif code & 0xFF87 == 0x4700:  # BX
            r[PC] = r[code >> 3 & 15] & ~1
        else:
            raise AssertionError(f"instruction {code:#06x} at {at:#x} is not emulated")
    raise AssertionError("the program in RAM does not return")
