# SPDX-License-Identifier: Apache-2.0
"""The user's choices for an image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from boards.board import Board
from compiler.errors import UserError
from toolchain.benchmark import Benchmark


@dataclass(frozen=True)
class FirmwareOptions:
    """The user's choices. `console`: auto (the chip's usual one), uart, compact (few commands, for small parts), none,
    or profile (uart that counts the cycles of each dispatch too);
    `benchmark`: whose firmware the console answers as; `app`: a directory with the user's own sources, in place of the
    console; `clock`: one of the board's clocks; `arena`: the RAM bank for the arena, empty for the board's own order;
    `weights`: inline in flash, or ram; `alternatives`: the boards that an error may recommend."""

    console: str = "auto"
    app: Path | None = None
    clock: str = "reset"
    arena: str = ""
    weights: str = "inline"
    optimize: str = "balanced"
    numerics: str = "tflm"
    alternatives: tuple[Board, ...] = ()
    benchmark: Benchmark | None = None

    @property
    def application(self) -> str:
        """What `main` is: console, compact, none or app."""
        if self.app is not None:
            return "app"
        return self.console if self.console in ("compact", "none") else "console"

    @property
    def talks(self) -> bool:
        """Whether there is a console of either kind."""
        return self.application in ("console", "compact")

    def on(self, board: Board) -> FirmwareOptions:
        """With the console that the board's chip usually has, where the user names none. A benchmark's runner needs all
        commands."""
        if self.console != "auto":
            return self
        return replace(self, console="uart" if self.benchmark is not None else board.usual_console)

    def check(self, models: Sequence[str]) -> None:
        """UserError for a console that cannot be, with models of these names."""
        if self.talks and len(models) > 1:
            raise UserError(
                "the console runs one model",
                where="model=",
                got=" + ".join(models),
                allowed="one model, or app=DIR with sources of your own, or console=none",
            )
        if self.app is not None and self.console == "profile":
            raise UserError(
                "cycles are counted by the console, which your sources take the place of",
                where="console=profile",
                got=f"app={self.app.name}",
                hint="build without app= to profile",
            )
        if self.benchmark is not None and self.application != "console":
            raise UserError(
                "the benchmark's runner talks to the console",
                where=f"benchmark={self.benchmark.name}",
                got="no console in this firmware" if not self.talks else "a console without the runner's commands",
                allowed="console=uart, and no app=",
            )

    def known_as(self, model: str) -> str:
        """The name that the console gives for a model."""
        return self.benchmark.name if self.benchmark else model

    @property
    def counts_cycles(self) -> bool:
        """Whether calls of kernels lead through counters."""
        return self.application == "console" and self.console == "profile"
