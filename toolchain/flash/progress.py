# SPDX-License-Identifier: Apache-2.0
"""What is seen while devices are flashed: a bar a device on a terminal, a line a stage elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn

from toolchain.report.terminal import Terminal

STAGES = {
    "connect": "the boot loader",
    "unprotect": "removes the protection: THE CHIP IS WIPED",
    "compare": "what the chip holds already",
    "erase": "the touched sectors",
    "write": "",
    "verify": "",
    "console": "asks the firmware for its name",
}


class Watcher:
    """Reports of several devices at once. `report(port)` gives the callback of one device."""

    def __init__(self, terminal: Terminal, bars: Progress | None, ports: Sequence[str]) -> None:
        self._terminal, self._bars = terminal, bars
        self._several = len(ports) > 1
        self._lock = threading.Lock()
        self._stages: dict[str, tuple[str, float]] = {}
        self._tasks = {p: bars.add_task(p, total=1, stage="", rate="") for p in ports} if bars else {}

    def report(self, port: str, stage: str, done: int, total: int) -> None:
        """See session.Progress."""
        with self._lock:
            known, begun = self._stages.get(port, ("", 0.0))
            if stage != known:
                begun = time.monotonic()
                self._stages[port] = (stage, begun)
                if self._bars is None:
                    size = f"{total:,} bytes" if total else ""
                    where = f"{port}: " if self._several else ""
                    told = " ".join(filter(None, (size, STAGES.get(stage, ""))))
                    self._terminal.stage(stage, where + told)
            if self._bars is not None:
                rate = done / max(time.monotonic() - begun, 1e-3)
                told = f"{rate / 1024:.1f} KB/s" if done else ""
                self._bars.update(self._tasks[port], completed=done, total=total or 1, stage=stage, rate=told)


@contextmanager
def watched(terminal: Terminal, ports: Sequence[str]) -> Iterator[Watcher]:
    """A watcher for these ports; bars only on a terminal that is not to be quiet."""
    if not terminal.console.is_terminal or terminal.quiet:
        yield Watcher(terminal, None, ports)
        return
    columns = (
        TextColumn("{task.description}"),
        TextColumn("{task.fields[stage]:>8}"),
        BarColumn(40),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[rate]}"),
    )
    with Progress(*columns, console=terminal.console) as bars:
        yield Watcher(terminal, bars, ports)
