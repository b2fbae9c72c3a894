# SPDX-License-Identifier: Apache-2.0
"""`library`: the built model as a library for the user's own project."""

from __future__ import annotations

from toolchain.library import write_library
from toolchain.report.contents import read_report
from toolchain.report.terminal import Terminal
from toolchain.request import Request


def library(request: Request) -> None:
    """Writes build/<board>/<model>/library."""
    report = read_report(request.folder / "report.json")
    folder = write_library(request.folder, request.board.core, report)
    Terminal(request.quiet).stage("library", f"{folder}: CMake, Zephyr, PlatformIO, Arduino")
