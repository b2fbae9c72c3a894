# SPDX-License-Identifier: Apache-2.0
"""What the compiler knows of the machine: an instruction set, never a board."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class FloatUnit(Enum):
    NONE = "none"
    SINGLE = "single"
    DOUBLE = "double"


@dataclass(frozen=True)
class Target:
    """An instruction set as LLVM and the kernels see it.

    `isa` names the module in compiler/isa/ whose kernels are used; `core` is the field's name for the core
    (cortex-m4, rv32imac, ...). `abi` is LLVM's ABI name (ilp32, ilp32f, ilp32e; empty on Arm, where the triple
    says it).
    """

    core: str
    isa: str
    triple: str
    cpu: str
    features: str
    abi: str
    float_unit: FloatUnit

    @property
    def is_host(self) -> bool:
        """Whether the code is for the building machine, whose addresses have 64 bits."""
        return self.isa == "host"

    @property
    def pointer_bytes(self) -> int:
        """The size of an address, and of an entry of a kernel's parameter table."""
        return 8 if self.is_host else 4

    @property
    def is_arm(self) -> bool:
        return self.triple.startswith("thumb")
