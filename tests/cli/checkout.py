# SPDX-License-Identifier: Apache-2.0
"""A copy of the project in which SCons may build: what the launcher runs, without setting anything up."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support import ROOT

PARTS = ("SConstruct", "boards", "compiler", "firmware_templates", "models", "qemu", "toolchain")
SECONDS = 300


@dataclass(frozen=True)
class Outcome:
    """How a command ended: exit code, standard output, standard error."""

    code: int
    out: str
    error: str

    @property
    def built(self) -> bool:
        """Whether the model was compiled, and not found to be up to date."""
        return "LLVM, one object a kernel" in self.out

    def refused(self, *told: str) -> None:
        """Asserts one message for the user that tells all of `told`, and exit code 2."""
        assert self.code == 2, f"exit code {self.code}\n{self.out}\n{self.error}"
        self._one_message(told)

    def failed(self, *told: str) -> None:
        """Asserts one message that tells all of `told`, and exit code 1: the fault is not the user's."""
        assert self.code == 1, f"exit code {self.code}\n{self.out}\n{self.error}"
        self._one_message(told)

    def _one_message(self, told: tuple[str, ...]) -> None:
        assert "Traceback" not in self.out + self.error
        messages = [line for line in self.error.splitlines() if line.startswith(("kiln: ", "scons: ***"))]
        others = [line for line in self.error.splitlines() if not line.startswith((" ", "kiln: ", "scons: "))]
        assert len(messages) == 1, self.error
        assert not others, self.error
        for part in told:
            assert part in self.error, f"{part!r} is not in\n{self.error}"


class Checkout:
    """The project in a folder of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        for part in PARTS:
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / part, root / part)

    def run(
        self, *arguments: str, environment: Mapping[str, str] | None = None, prefix: tuple[str, ...] = ()
    ) -> Outcome:
        """Runs SCons as the launcher does, by way of the command `prefix`."""
        done = subprocess.run(
            [*prefix, sys.executable, "-P", "-m", "SCons", *arguments],
            cwd=self.root,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def model(self, name: str, data: bytes) -> str:
        """Writes a model file; returns the variable that names it."""
        path = self.root.parent / "models of the user" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        return f"model={path}"

    def left(self) -> list[str]:
        """All files below build/ but the record of a fault."""
        found = [path for path in (self.root / "build").rglob("*") if path.is_file()]
        return sorted(str(p.relative_to(self.root / "build")) for p in found if p.name != "internal-error.log")

    def folder(self, board: str, model: str) -> Path:
        return self.root / "build" / board / model


def files(folder: Path) -> dict[str, bytes]:
    """Every file of a folder with its bytes."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
