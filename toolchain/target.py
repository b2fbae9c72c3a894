# SPDX-License-Identifier: Apache-2.0
"""A board's core, as the compiler sees it."""

from __future__ import annotations

from boards.board import Core
from compiler.target import FloatUnit, Target


def target_of(core: Core) -> Target:
    return Target(
        core=core.name,
        isa=core.isa,
        triple=core.triple,
        cpu=core.llvm_cpu,
        features=core.llvm_features,
        abi=core.llvm_abi,
        float_unit=FloatUnit(core.float_unit),
    )
