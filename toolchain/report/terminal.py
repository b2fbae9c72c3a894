# SPDX-License-Identifier: Apache-2.0
"""What a person sees: a line for each stage, and tables. Everything in a table comes from report.json."""

from __future__ import annotations

import logging
import sys
import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from toolchain.report.columns import GAP, Column, fit, shorten

_BAR = 40
_SIZE_COLUMNS: tuple[JustifyMethod, ...] = ("left", "left", "right", "right")
_CODE, _CONSTANTS, _ARENA, _STATIC, _STACK, _FREE = "cyan", "blue", "green", "yellow", "magenta", "bright_black"


def show_commands() -> None:
    """From now on every program that is started is printed as a shell would take it."""
    log = logging.getLogger("kiln.commands")
    log.setLevel(logging.DEBUG)
    if not log.handlers:
        log.addHandler(logging.StreamHandler(sys.stdout))


class Terminal:
    """Standard output for results; stage lines go there too unless `quiet`."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.console = Console(highlight=False, soft_wrap=True)
        if not self.console.is_terminal:
            # Piped output is read by programs and in wide windows: never cut it.
            self.console.width = 1000
        self._started = time.monotonic()

    def stage(self, name: str, detail: str = "") -> None:
        """One line: what begins now, and the seconds since the start."""
        if not self.quiet:
            line = Text.assemble((f"{name:>10}", "bold"), "  ", detail)
            if self.console.is_terminal:
                line.append(f"  {time.monotonic() - self._started:.1f} s", "bright_black")
            self.console.print(line)
            sys.stdout.flush()

    def line(self, text: str, style: str = "") -> None:
        self.console.print(Text(text, style))
        sys.stdout.flush()

    def verdict(self, passed: bool, text: str) -> None:
        """The fixed success or failure line that scripts may look for."""
        self.console.print(Text.assemble(("PASS", "bold green") if passed else ("FAIL", "bold red"), "  ", text))
        sys.stdout.flush()

    def sizes(self, report: Mapping[str, Any]) -> None:
        """The size table: flash and RAM with bars, what they are made of, and their limits."""
        flash, ram = report["flash"], report["ram"]
        table = Table(box=None, pad_edge=False, show_header=False)
        for justify in _SIZE_COLUMNS:
            table.add_column(justify=justify, no_wrap=True)
        for name, region, parts in (
            ("flash", flash, (("code", _CODE), ("constants", _CONSTANTS))),
            ("RAM", ram, (("arena", _ARENA), ("static", _STATIC), ("stack", _STACK))),
        ):
            share = 100 * region["total"] / region["limit"]
            legend = Text("  ").join(Text(f"{part} {region[part]:,}", style) for part, style in parts)
            table.add_row(
                Text(name, "bold"),
                _bar([(region[part], style) for part, style in parts], region["limit"]),
                Text(f"{region['total']:,} of {region['limit']:,} B", "bold red" if share > 100 else ""),
                Text(f"{share:.1f} %"),
            )
            table.add_row("", legend, "", "")
        self.console.print(table)

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> None:
        """A plain table that fits the window; piped output is neither cut nor thinned out."""
        texts = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
        shown, widths = fit(columns, texts, self.console.width)
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
        for i in shown:
            table.add_column(columns[i].header, justify="right" if columns[i].number else "left", no_wrap=True)
        for row in texts:
            table.add_row(*(Text(shorten(row[i], width)) for i, width in zip(shown, widths, strict=True)))
        self.console.print(table)

    def paragraph(self, text: str, indent: int) -> None:
        """Words wrapped to the window; whole when piped."""
        if self.console.is_terminal:
            first, later = " " * indent, " " * (indent + 2)
            self.line(textwrap.fill(text, self.console.width, initial_indent=first, subsequent_indent=later))
        else:
            self.line(" " * indent + text)


def _bar(parts: Sequence[tuple[int, str]], limit: int) -> Text:
    """Parts of a whole of `limit` as coloured blocks; every part that is not empty shows at least one."""
    bar = Text()
    try:
        "█░".encode(sys.stdout.encoding or "ascii")
        full, free = "█░"
    except UnicodeEncodeError:
        full, free = "#-"
    for size, style in parts:
        blocks = max(1 if size else 0, round(_BAR * size / limit))
        bar.append(full * min(blocks, _BAR - len(bar)), style)
    bar.append(free * (_BAR - len(bar)), _FREE)
    return bar
