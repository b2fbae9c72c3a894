# SPDX-License-Identifier: Apache-2.0
"""What the user wants of the code: speed, size, or a balance, and how much memory there is for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Optimize(Enum):
    """SPEED: the fewest instructions. BALANCED: the fewest within a budget of flash relative to the model file. SIZE:
    the least flash."""

    SPEED = "speed"
    BALANCED = "balanced"
    SIZE = "size"


@dataclass(frozen=True)
class Settings:
    """`flash_bytes`: what kernels and constants may take at most, `arena_bytes`: what the arena may; None where the
    board does not limit them."""

    optimize: Optimize = Optimize.BALANCED
    flash_bytes: int | None = None
    arena_bytes: int | None = None


DEFAULT_SETTINGS = Settings()
