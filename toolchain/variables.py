# SPDX-License-Identifier: Apache-2.0
"""The command line's variables become requests; what is wrong with them is told before anything is built."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from boards.board import Board
from boards.loader import load_board
from compiler.costs import Costs
from compiler.errors import UserError
from compiler.model import c_prefix
from compiler.settings import Optimize
from toolchain.application import SOURCES, application_sources
from toolchain.benchmark import BENCHMARKS
from toolchain.bundle import check_names
from toolchain.measure.tuning import read_tuning
from toolchain.request import HOST, ROOT, BoardRequest, HostRequest, Request
from toolchain.serial_link import read_link
from toolchain.site import board_site

_LONGEST = 200
"""Bytes of a build folder's name: file systems take 255, and temporary names are longer than it."""
OF_BOARDS = {
    "console": "auto",
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
"""Variables that say nothing of the building machine, with what they are where the user names none."""

_DEVICE = ("erase", "flash", "infer", "monitor", "profile", "run", "upload", "verify")
USED_BY = {
    "baud": ("erase", "flash", "upload"),
    "compare": ("report",),
    "input": ("infer", "profile", "verify"),
    "log": ("monitor",),
    "oracle": ("verify",),
    "output": ("infer", "tune"),
    "port": _DEVICE,
    "protocol": ("erase", "flash", "upload"),
    "resume": ("flash", "upload"),
    "scheduler": ("tune",),
    "unprotect": ("erase", "flash", "upload"),
    "wiring": _DEVICE,
}
"""Variables that say nothing of what is built, with the targets that take them."""


def check_used(given: Mapping[str, str], targets: Sequence[str]) -> None:
    """UserError for a variable on the command line that none of the targets takes: the user expects another one."""
    for name, users in USED_BY.items():
        if given.get(name) and not set(users) & set(targets):
            raise UserError(
                f"{name}= is for another target",
                where=f"{name}={given[name]}",
                got=", ".join(targets),
                allowed=", ".join(users),
                hint=f"name the target that shall take it, or leave {name}= out",
            )


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


def _existing(variable: str, name: str, directory: Path) -> Path | None:
    """A file that the user names. UserError where it is not there."""
    path = directory / name if name else None
    if path is not None and path.exists() and not path.is_file():
        kind = "folder" if path.is_dir() else "device or a pipe"
        raise UserError(f"the {variable} file cannot be read", where=f"{variable}={name}", got=f"{path} is a {kind}")
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
    name = "+".join(model.stem for model in models)
    if len(os.fsencode(name)) > _LONGEST:
        raise UserError(
            "the models' names are too long for a folder's",
            where="model=",
            got=f"{len(os.fsencode(name))} bytes",
            allowed=f"{_LONGEST} bytes together, with a + between two",
            hint="rename a file: C names and the build's folder come from it",
        )
    folder = ROOT / "build" / board / name
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
    # What a link stands for is written, not the link: files are put in place by renaming.
    path = (directory / name).resolve() if name else None
    if path is not None and ((path.exists() and not path.is_file()) or not path.parent.is_dir()):
        kind = "a folder" if path.is_dir() else "a device or a pipe"
        raise UserError(
            "the output file cannot be written",
            where=f"output={name}",
            got=f"{path} is {kind}" if path.exists() else f"there is no folder {path.parent}",
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
    by_letters = {each.lower(): each for each in sorted(known)}
    return [by_letters[close] for close in difflib.get_close_matches(name.lower(), sorted(by_letters), 3, 0.5)]


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a word of the command line that nobody knows."""
    known = sorted(known)
    close = nearest(name, known)
    return UserError(
        f"there is no {kind} '{name}'",
        allowed=", ".join(known),
        hint=f"did you mean {' or '.join(close)}?" if close else None,
    )
