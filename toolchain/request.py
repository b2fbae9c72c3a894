# SPDX-License-Identifier: Apache-2.0
"""What the user asks for, checked: board, model, files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from boards.board import Board
from boards.flashing import Flashing
from compiler.costs import Costs
from compiler.errors import UserError
from compiler.model import c_prefix
from compiler.settings import Optimize, Settings
from toolchain.application import application_files
from toolchain.benchmark import Benchmark
from toolchain.options import FirmwareOptions
from toolchain.products import host_products, products
from toolchain.serial_link import Link, no_port
from toolchain.target import settings_of

ROOT = Path(__file__).resolve().parents[1]
FLASH_TARGETS = ("flash", "upload")
DRIVES = ("uf2",)
"""Protocols that find their device without a port."""
FORMS_TAKEN = {"esp32": ("esp32c3",), "smp": ("mcuboot",), "uf2": ("rp2040", "rp2350")}
"""Protocols that take some forms of image alone, by `Board.image`."""
HOST = "host"
"""The name that stands for the building machine where a board is asked for."""
HOST_TARGETS = ("firmware", "infer", "schedule", "verify")
"""What there is for it: it has neither flash nor a stack of its own to speak of, nor instruction counts."""


@dataclass(frozen=True)
class ModelRequest:
    """One invocation on a model. `folder` is build/<board>/<model>/; files are None where not given.
    `oracles` are Pythons that have other runtimes installed; none: wherever they are found."""

    model: Path
    folder: Path
    input: Path | None
    output: Path | None
    compare: Path | None
    oracles: tuple[Path, ...]
    verbose: bool
    quiet: bool
    link: Link

    @property
    def prefix(self) -> str:
        """The start of the model's C names."""
        return c_prefix(self.model.stem)


@dataclass(frozen=True)
class BoardRequest:
    """An invocation for a board alone. `elf` is the firmware that it may be running, where one is built."""

    board: Board
    link: Link
    elf: Path | None
    verbose: bool
    quiet: bool


@dataclass(frozen=True)
class Request(ModelRequest):
    """An invocation for a board."""

    board: Board
    console: str
    benchmark: Benchmark | None
    clock: str
    arena: str
    arena_bytes: int | None
    """The most that the arena may take; None: what the board has."""
    weights: str
    optimize: Optimize
    app: Path | None
    more: tuple[Path, ...]
    """Model files that go into the same image."""
    tuning: Path | None
    costs: Costs
    """What the file `tuning` has."""
    scheduler: str

    @property
    def models(self) -> tuple[Path, ...]:
        return (self.model, *self.more)

    @property
    def sources(self) -> tuple[Path, ...]:
        """The user's files that the firmware is built of."""
        tuning = (self.tuning,) if self.tuning else ()
        return (*self.models, *tuning, *(application_files(self.app) if self.app else ()))

    @property
    def tuned(self) -> Path:
        """The file that `tune` writes."""
        return self.output or self.folder.with_name(f"{self.folder.name}.tuning.json")

    @property
    def settings(self) -> Settings:
        return replace(settings_of(self.board, self.optimize, self.arena_bytes), costs=self.costs)

    @property
    def options(self) -> FirmwareOptions:
        return FirmwareOptions(
            console=self.console,
            app=self.app,
            clock=self.clock,
            arena=self.arena,
            weights=self.weights,
            optimize=self.optimize.value,
            benchmark=self.benchmark,
        ).on(self.board)

    @property
    def products(self) -> tuple[str, ...]:
        """The files that every build makes, by name in `folder`."""
        prefixes = (c_prefix(model.stem) for model in self.models)
        return products(self.board, *prefixes, app=self.app is not None)


@dataclass(frozen=True)
class HostRequest(ModelRequest):
    """An invocation for the building machine."""

    @property
    def sources(self) -> tuple[Path, ...]:
        """The user's files that are built."""
        return (self.model,)

    @property
    def products(self) -> tuple[str, ...]:
        """The files that every build makes, by name in `folder`."""
        return host_products(self.prefix)


def check_target(request: Request | HostRequest, name: str) -> None:
    """UserError for a target that the building machine does not have, or that lacks its port."""
    if isinstance(request, Request) and name in FLASH_TARGETS:
        flashing_of(request.board, request.link)
    if isinstance(request, HostRequest) and name not in HOST_TARGETS:
        raise UserError(
            f"the building machine is no board: it has no '{name}'",
            where="board=host",
            allowed=", ".join(HOST_TARGETS),
            hint="name a board; `scons boards` lists them",
        )


def flashing_of(board: Board, link: Link) -> Flashing:
    """What is known of flashing the board, with the protocol that the user wants. UserError where nothing is, the
    board's image is in another form than the protocol takes, or a port is missing."""
    if board.flashing is None:
        raise UserError(
            "this board is not flashed over serial",
            where=board.name,
            hint="program firmware.hex or firmware.bin with a debug probe",
        )
    flashing = replace(board.flashing, protocol=link.protocol or board.flashing.protocol)
    forms = FORMS_TAKEN.get(flashing.protocol)
    if forms and board.image not in forms:
        raise UserError(
            "this boot loader takes no image of this board",
            where=f"board={board.name}",
            got=f"protocol={flashing.protocol}, which takes images for {' or '.join(forms)}",
            hint=f"leave protocol= out: the board's own is {board.flashing.protocol}",
        )
    if not link.ports and flashing.protocol not in DRIVES:
        raise no_port()
    return flashing
