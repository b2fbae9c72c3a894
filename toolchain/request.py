# SPDX-License-Identifier: Apache-2.0
"""What the user asks for, checked: board, model, files."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from boards.board import Board
from boards.flashing import Flashing
from boards.loader import load_board
from compiler.costs import Costs
from compiler.errors import UserError
from compiler.model import c_prefix
from compiler.settings import Optimize, Settings
from toolchain.application import SOURCES, application_files, application_sources
from toolchain.benchmark import BENCHMARKS, Benchmark
from toolchain.bundle import check_names
from toolchain.options import FirmwareOptions
from toolchain.products import host_products, products
from toolchain.serial_link import Link, no_port, read_link
from toolchain.site import board_site
from toolchain.target import settings_of
from toolchain.tuning import read_tuning

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

OF_BOARDS = {
    "console": "uart",
    "benchmark": "",
    "app": "",
    "optimize": "balanced",
    "clock": "reset",
    "arena": "",
    "arena_bytes": "",
    "weights": "inline",
    "port": "",
    "tuning": "",
}
"""Variables that say nothing of it, with what they are where the user names none."""


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
        )

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


def read_request(variables: Mapping[str, Any], directory: Path, quiet: bool) -> Request | HostRequest:
    """Checks variables as the command line gives them; relative paths start at `directory`.

    Raises UserError for a missing or unknown board, files that are not there, and choices that the board does not have.
    """
    board = _board(variables["board"])
    models = tuple(find_model(name, directory) for name in variables["model"].split(","))
    app = _application(variables["app"], directory)
    common = (
        models[0],
        _folder(HOST if board is None else board.name, models),
        _existing("input", variables["input"], directory),
        _output(variables["output"], directory),
        _existing("compare", variables["compare"], directory),
        tuple(directory / Path(python).expanduser() for python in variables["oracle"].split(",") if python),
        bool(variables["verbose"]),
        quiet,
        read_link(variables, directory),
    )
    if board is None:
        _only_of_boards(variables, models)
        return HostRequest(*common)
    tuning = _existing("tuning", variables["tuning"], directory)
    request = Request(
        *common,
        board=board,
        console=variables["console"],
        benchmark=BENCHMARKS[variables["benchmark"]] if variables["benchmark"] else None,
        clock=variables["clock"],
        arena=variables["arena"],
        arena_bytes=_bytes("arena_bytes", variables["arena_bytes"]),
        weights=variables["weights"],
        optimize=Optimize(variables["optimize"]),
        app=app,
        more=models[1:],
        tuning=tuning,
        costs=read_tuning(tuning, board.core).costs if tuning else Costs(),
        scheduler=variables["scheduler"],
    )
    # Before the former build is removed to make room for this one.
    board_site(board, request.clock).arena_banks(request.arena)
    check_names([(model.name, c_prefix(model.stem)) for model in models])
    request.options.check([model.name for model in models])
    return request


def read_board_request(variables: Mapping[str, Any], directory: Path, quiet: bool) -> BoardRequest:
    """As `read_request`, for targets that need no model. With one, its build is what the board may be running."""
    board = _board(variables["board"])
    if board is None:
        raise _no_board("the building machine has no serial boot loader")
    elf = None
    if variables["model"]:
        models = tuple(find_model(name, directory) for name in variables["model"].split(","))
        elf = _folder(board.name, models) / "firmware.elf"
    link = read_link(variables, directory)
    return BoardRequest(board, link, elf if elf and elf.is_file() else None, bool(variables["verbose"]), quiet)


def _bytes(variable: str, text: str) -> int | None:
    """A number of bytes, or of KiB with K behind it; None where there is none."""
    if not text:
        return None
    if not re.fullmatch(r"[0-9]{1,9}[kK]?", text, re.ASCII):
        raise UserError(f"{variable}= is no number of bytes", got=text, allowed="digits, with K for KiB: 24576, 24K")
    return int(text[:-1]) * 1024 if text[-1] in "kK" else int(text)


def _board(name: str) -> Board | None:
    """The board of that name; None for the building machine."""
    if not name:
        raise UserError(
            "no board is given", allowed="board=NAME", hint="`scons boards` lists the boards; ch32v is a good start"
        )
    return None if name == HOST else load_board(name)


def _no_board(what: str) -> UserError:
    return UserError(what, where="board=host", hint="name a board; `scons boards` lists them")


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


def _existing(variable: str, name: str, directory: Path) -> Path | None:
    """A file that the user names. UserError where it is not there."""
    path = directory / name if name else None
    if path is not None and not path.is_file():
        raise UserError(f"the {variable} file is not there", where=f"{variable}={name}", got=str(path))
    return path


def _folder(board: str, models: tuple[Path, ...]) -> Path:
    """Where the build goes. UserError for a file name that is no name of a folder, and where a file is in the way."""
    for model in models:
        if model.stem in (".", ".."):
            raise UserError("the model file's name has no part before its suffix", where="model=", got=model.name)
        if not model.name.isprintable():
            raise UserError("the model file's name is not printable text", where="model=", got=ascii(model.name))
    folder = ROOT / "build" / board / "+".join(model.stem for model in models)
    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            raise UserError(
                "a file is where the build's folder goes", where=str(place), hint="remove it or give it another name"
            )
    return folder


def _application(name: str, directory: Path) -> Path | None:
    """The folder of the user's sources; None where none is given. UserError where it is not there or has none."""
    path = directory / Path(name).expanduser() if name else None
    if path is not None and not path.is_dir():
        raise UserError("the application's folder is not there", where=f"app={name}", got=str(path))
    if path is not None and not application_sources(path):
        raise UserError(
            "the application has no sources", where=f"app={name}", got=str(path), allowed="*" + ", *".join(SOURCES)
        )
    return path


def _only_of_boards(variables: Mapping[str, Any], models: tuple[Path, ...]) -> None:
    """UserError for what the building machine does not do."""
    if len(models) > 1:
        raise _no_board(f"the building machine runs one model, not {len(models)}")
    chosen = [f"{name}={variables[name]}" for name, usual in OF_BOARDS.items() if variables[name] != usual]
    if chosen:
        raise _no_board(f"the building machine has no choice of {', '.join(chosen)}")


def _output(name: str, directory: Path) -> Path | None:
    """The file that `infer` writes; known to have a place before a long run begins."""
    path = directory / name if name else None
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        raise UserError(
            "the output file cannot be written",
            where=f"output={name}",
            got=f"{path} is a folder" if path.is_dir() else f"there is no folder {path.parent}",
            allowed="a file in a folder that exists",
        )
    return path


def find_model(name: str, directory: Path) -> Path:
    """The model file: a path as given, or a name in models/, with or without .tflite. UserError where there is none."""
    shipped = sorted(path.name for path in (ROOT / "models").glob("*.tflite"))
    if not name:
        raise UserError("no model is given", allowed="model=FILE.tflite", hint=f"models/ has {', '.join(shipped)}")
    for candidate in (directory / name, ROOT / name, ROOT / "models" / name, ROOT / "models" / f"{name}.tflite"):
        if candidate.is_file():
            return candidate
    close = nearest(Path(name).name, shipped)
    raise UserError(
        "the model file is not there",
        where=f"model={name}",
        allowed="a path, or the name of a file in models/",
        hint=f"did you mean {' or '.join(close)}?" if close else f"models/ has {', '.join(shipped)}",
    )


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Up to three known names that look like `name`, the most alike first."""
    return difflib.get_close_matches(name, sorted(known), 3, 0.5)


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a word of the command line that nobody knows."""
    known = sorted(known)
    close = nearest(name, known)
    return UserError(
        f"there is no {kind} '{name}'",
        allowed=", ".join(known),
        hint=f"did you mean {' or '.join(close)}?" if close else None,
    )
