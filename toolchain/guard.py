# SPDX-License-Identifier: Apache-2.0
"""What stops a stack that outgrows its proven size."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from boards.board import Board


class Protection(Enum):
    """LIMIT: Armv8-M's stack limit register. MPU: a region that cannot be written, set by start-up where MPU_TYPE says
    that the part has an MPU. PMP: RISC-V's physical memory protection, locked so that machine mode obeys it. CANARY:
    nothing but a word whose change the console finds after a command."""

    LIMIT = "limit"
    MPU = "mpu"
    PMP = "pmp"
    CANARY = "canary"


@dataclass(frozen=True)
class Guard:
    """The bytes below the stack's proven size."""

    protection: Protection

    @property
    def bytes(self) -> int:
        """At least what the protection can tell apart; a multiple of 16."""
        return 32 if self.protection in (Protection.MPU, Protection.PMP) else 16


_ARM = {
    "cortex-m3": Protection.MPU,
    "cortex-m4": Protection.MPU,
    "cortex-m4f": Protection.MPU,
    "cortex-m7": Protection.MPU,
    "cortex-m7s": Protection.MPU,
    "cortex-m33": Protection.LIMIT,
    "cortex-m55": Protection.LIMIT,
}
"""Cortex-M0 has none. On Cortex-M0+ a region would hide the report: a fault while HardFault is entered locks up."""

_RISCV_START_UPS = ("riscv", "esp32c3", "ibex")
"""Standard cores: SiFive E31 (FE310-G002 manual, 8 regions), ESP32-C3 (technical reference manual, 16 regions), Ibex as
OpenTitan has it (Ibex reference guide, 16 regions)."""


def guard_of(board: Board) -> Guard:
    """The guard of a board's stack, on the board and on its twin alike."""
    core = board.core
    if core.triple.startswith("thumb"):
        return Guard(_ARM.get(core.name, Protection.CANARY))
    has_pmp = board.startup in _RISCV_START_UPS and core.llvm_abi != "ilp32e"
    return Guard(Protection.PMP if has_pmp else Protection.CANARY)
