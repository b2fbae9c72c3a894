# SPDX-License-Identifier: Apache-2.0
"""What the user wants of the code: speed, size, or a balance, and how much memory there is for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from compiler.costs import Costs


class Optimize(Enum):
    """SPEED: the fewest instructions. BALANCED: the fewest within a budget of flash relative to the model file. SIZE:
    the least flash."""

    SPEED = "speed"
    BALANCED = "balanced"
    SIZE = "size"


@dataclass(frozen=True)
class Settings:
    """`flash_bytes`: what kernels and constants may take at most, `arena_bytes`: what the arena may; None where the
    board does not limit them. `banks`: the arena lies in one bank of memory more than this has numbers, of which each
    holds so many bytes at most, in order, and the last one what is left. `costs`: what was measured of kernels, besides
    what comes with the project."""

    optimize: Optimize = Optimize.BALANCED
    flash_bytes: int | None = None
    arena_bytes: int | None = None
    banks: tuple[int, ...] = ()
    costs: Costs = field(default_factory=Costs, hash=False)


DEFAULT_SETTINGS = Settings()
