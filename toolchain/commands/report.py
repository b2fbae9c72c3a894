# SPDX-License-Identifier: Apache-2.0
"""`report`: report.html anew, with a comparison to another report where one is given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from compiler.errors import UserError
from toolchain.emulation import Built
from toolchain.files import write_text
from toolchain.report.columns import Column
from toolchain.report.contents import SCHEMA, read_report
from toolchain.report.differences import Comparison, compare_reports
from toolchain.report.page import page
from toolchain.report.terminal import Terminal
from toolchain.request import Request


def report(request: Request) -> None:
    """Writes report.html; with `compare` it also prints the figures of both reports."""
    terminal, built = Terminal(request.quiet), Built.of(request)
    comparison = None
    if request.compare is not None:
        comparison = compare_reports(built.report, read_other(request.compare))
        _print(terminal, comparison)
    path = write_text(built.folder / "report.html", page(built.report, comparison))
    terminal.line(str(path))


def read_other(path: Path) -> dict[str, Any]:
    """Another build's report. UserError for a file that is none, or of another schema."""
    try:
        other = read_report(path)
        schema = other["schema"]
    except (UnicodeDecodeError, json.JSONDecodeError, TypeError, KeyError) as error:
        raise UserError(
            "this is not a report", where=str(path), got=str(error), allowed="the report.json of a build"
        ) from error
    if schema != SCHEMA:
        raise UserError(
            "this report has another schema",
            where=str(path),
            got=str(schema),
            allowed=str(SCHEMA),
            hint="build it again with this version",
        )
    return other


def _print(terminal: Terminal, comparison: Comparison) -> None:
    rows = [
        (f.name, "" if f.now is None else f.now, "" if f.other is None else f.other, f.told)
        for f in (*comparison.figures, *comparison.layers)
    ]
    numbers = (Column(name, number=True) for name in ("this build", "the other", "change"))
    terminal.table((Column(f"against {comparison.title}", cut=True), *numbers), rows)
