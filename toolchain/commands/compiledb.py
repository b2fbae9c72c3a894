# SPDX-License-Identifier: Apache-2.0
"""`compiledb`: compile_commands.json at the project's root, for editors."""

from __future__ import annotations

import json

from toolchain.files import write_text
from toolchain.gcc import compiler_for
from toolchain.report.terminal import Terminal
from toolchain.request import ROOT, Request


def compiledb(request: Request) -> None:
    """Writes how each generated source of this build is compiled."""
    compiler = compiler_for(request.board.core, request.folder)
    sources = sorted(path for path in request.folder.iterdir() if path.suffix in (".c", ".S"))
    commands = [
        {
            "directory": str(request.folder),
            "file": str(source),
            "arguments": [
                str(compiler.gcc),
                *compiler.arguments(source, source.with_suffix(".o"), ("-Iinclude",)),
            ],
        }
        for source in sources
    ]
    path = write_text(ROOT / "compile_commands.json", json.dumps(commands, indent=1) + "\n")
    Terminal(request.quiet).stage("write", f"{path.name}, {len(commands)} sources of {request.folder.name}")
