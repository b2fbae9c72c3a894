# SPDX-License-Identifier: Apache-2.0
"""LLVM IR and assembly of a model, for reading."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from compiler.artifact import CompiledModel, ObjectFile
from toolchain.files import write_text


def write_listings(model: CompiledModel, out: Path) -> None:
    """Writes <prefix>.ll and <prefix>.s into the folder `out`."""
    write_text(out / f"{model.prefix}.ll", _listing(model, ";", lambda part: part.ir))
    write_text(out / f"{model.prefix}.s", _listing(model, "#", lambda part: part.assembly))


def _listing(model: CompiledModel, comment: str, text: Callable[[ObjectFile], str]) -> str:
    """What the objects were made of, one after the other."""
    return "\n".join(f"{comment} ---- {part.name}.o\n{text(part)}" for part in model.objects)
