# SPDX-License-Identifier: Apache-2.0
"""What the user asks for, checked: board, model, files."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boards.board import Board
from boards.loader import load_board
from compiler.errors import UserError
from compiler.model import c_prefix
from toolchain.products import products

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Request:
    """One invocation. `folder` is build/<board>/<model>/; `input`, `output` and `compare` are None where not given."""

    board: Board
    model: Path
    folder: Path
    console: str
    input: Path | None
    output: Path | None
    compare: Path | None
    verbose: bool
    quiet: bool

    @property
    def products(self) -> tuple[str, ...]:
        """The files that every build makes, by name in `folder`."""
        return products(self.board, c_prefix(self.model.stem))

    @classmethod
    def from_variables(cls, variables: Mapping[str, Any], directory: Path, quiet: bool) -> Request:
        """Checks variables as the command line gives them; relative paths start at `directory`.

        Raises UserError for a missing or unknown board, and for files that are not there.
        """
        if not variables["board"]:
            raise UserError(
                "no board is given", allowed="board=NAME", hint="`scons boards` lists the boards; ch32v is a good start"
            )
        board = load_board(variables["board"])
        model = find_model(variables["model"], directory)
        return cls(
            board=board,
            model=model,
            folder=_folder(board, model),
            console=variables["console"],
            input=_existing("input", variables["input"], directory),
            output=_output(variables["output"], directory),
            compare=_existing("compare", variables["compare"], directory),
            verbose=bool(variables["verbose"]),
            quiet=quiet,
        )


def _existing(variable: str, name: str, directory: Path) -> Path | None:
    """A file that the user names. UserError where it is not there."""
    path = directory / name if name else None
    if path is not None and not path.is_file():
        raise UserError(f"the {variable} file is not there", where=f"{variable}={name}", got=str(path))
    return path


def _folder(board: Board, model: Path) -> Path:
    """Where the build goes. UserError for a file name that is no name of a folder."""
    if model.stem in (".", ".."):
        raise UserError("the model file's name has no part before its suffix", where="model=", got=model.name)
    return ROOT / "build" / board.name / model.stem


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
