# SPDX-License-Identifier: Apache-2.0
"""The file of tuning=: what the user has measured with the target `tune`, an input of the build like the model."""

from __future__ import annotations

from pathlib import Path

from boards.board import Core
from compiler.costs import CostFile, parse_costs
from compiler.errors import UserError

_AGAIN = "measure again with the target `tune`"


def read_tuning(path: Path, core: Core, allow_stale: bool = False) -> CostFile:
    """A tuning file for a core. UserError where it is none, is of another core, or, unless `allow_stale`, was measured
    with other kernels than today's."""
    try:
        file = parse_costs(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError("this is no tuning file", where=str(path), got=str(error), hint=_AGAIN) from error
    if file.core != core.name:
        raise UserError(
            "this tuning file is of another core", where=str(path), got=file.core, allowed=core.name, hint=_AGAIN
        )
    if file.stale and not allow_stale:
        raise UserError(
            "this tuning file was measured with other kernels than this version's",
            where=str(path),
            got=", ".join(file.stale),
            hint=_AGAIN,
        )
    return file
