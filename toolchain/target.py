# SPDX-License-Identifier: Apache-2.0
"""A board's core and memory, as the compiler sees them."""

from __future__ import annotations

from boards.board import Board, Core
from compiler.settings import Optimize, Settings
from compiler.target import FloatUnit, Target

FRAME_BYTES = 6 * 1024
"""Flash that start-up, vectors and console take, about."""


def settings_of(board: Board, optimize: Optimize = Optimize.BALANCED, arena_bytes: int | None = None) -> Settings:
    """What the user wants within what the board has."""
    return Settings(optimize, board.constants.size - FRAME_BYTES, arena_bytes)


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
