# SPDX-License-Identifier: Apache-2.0
"""Other runtimes as oracles, where they are installed: TFLite Micro, LiteRT's reference and default kernels.

They are no part of the product: each runs in a process of the Python that has its package.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
WORKER = ROOT / "toolchain" / "oracles" / "worker.py"
ENVIRONMENT = ROOT / ".venv-oracle" / "bin" / "python"
"""Where requirements-oracle.lock is installed by custom, so that nobody need name it."""
SECONDS = 600.0

Arrays = list[NDArray[Any]]
Answer = Arrays | str
"""Outputs, or why there are none."""


@dataclass(frozen=True)
class Oracle:
    """A kernel set of a runtime: tflm, litert (its reference kernels) or xnnpack (what a desktop runs)."""

    python: Path
    kernels: str
    title: str


@dataclass(frozen=True)
class Question:
    """A model file's bytes and rows of inputs, each [rows, *shape]."""

    model: bytes
    inputs: tuple[NDArray[Any], ...]


def find_oracles(pythons: Sequence[Path] = ()) -> tuple[Oracle, ...]:
    """What is installed for the given Pythons; without any, for this one and for ENVIRONMENT. The first that has a
    kernel set is taken. UserError for a Python that cannot be run."""
    found: dict[str, Oracle] = {}
    for python in pythons or (Path(sys.executable), ENVIRONMENT):
        if not pythons and not python.is_file():
            continue
        for line in _list(python):
            kernels, title = line.split(" ", 1)
            found.setdefault(kernels, Oracle(python, kernels, title))
    return tuple(found[name] for name in sorted(found, key=["tflm", "litert", "xnnpack"].index))


def _list(python: Path) -> list[str]:
    try:
        done = subprocess.run(
            [str(python), "-I", str(WORKER), "list"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UserError(
            "this Python cannot be asked for oracles",
            where=f"oracle={python}",
            got=str(error),
            allowed="the python of an environment with numpy, and tflite-micro or ai-edge-litert",
        ) from error
    return done.stdout.splitlines()


def ask(oracle: Oracle, questions: Sequence[Question]) -> list[Answer]:
    """The outputs for each question, [rows, *shape] each, or why there are none."""
    with tempfile.TemporaryDirectory(prefix="tinykiln-") as name:
        folder = Path(name)
        stems = [f"{number:06}" for number in range(len(questions))]
        for stem, question in zip(stems, questions, strict=True):
            (folder / f"{stem}.tflite").write_bytes(question.model)
            named: dict[str, Any] = {f"in{i}": array for i, array in enumerate(question.inputs)}
            np.savez(folder / f"{stem}.npz", **named)
        while unanswered := [stem for stem in stems if not _answered(folder, stem)]:
            stopped = _start(oracle, folder)
            # It stops at the first model that it neither runs nor refuses in words.
            if not _answered(folder, unanswered[0]):
                (folder / f"{unanswered[0]}.error").write_text(stopped)
        return [_answer(folder, stem) for stem in stems]


def _start(oracle: Oracle, folder: Path) -> str:
    """Runs the worker; returns how it ended, for a model that it left without an answer."""
    command = [str(oracle.python), "-I", str(WORKER), oracle.kernels, str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"it took longer than {SECONDS:.0f} s"
    last = done.stderr.strip().splitlines()[-1:] or [""]
    return f"it stopped with exit code {done.returncode}: {last[0]}"


def _answered(folder: Path, stem: str) -> bool:
    return (folder / f"{stem}.out.npz").exists() or (folder / f"{stem}.error").exists()


def _answer(folder: Path, stem: str) -> Answer:
    error = folder / f"{stem}.error"
    if error.exists():
        return error.read_text()
    with np.load(folder / f"{stem}.out.npz") as file:
        return [file[f"out{number}"] for number in range(len(file.files))]
