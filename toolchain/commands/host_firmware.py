# SPDX-License-Identifier: Apache-2.0
"""`firmware` for the building machine: objects in build/host/<model>/ that `infer` and `verify` run."""

from __future__ import annotations

from compiler.codegen.host import host_target
from compiler.compile import compile_model
from compiler.model import Model
from toolchain.commands.firmware import STAGES, publish
from toolchain.host import build_host
from toolchain.report.contents import read_report
from toolchain.report.terminal import Terminal
from toolchain.request import HostRequest


def host_firmware(request: HostRequest) -> None:
    """Builds aside and moves the products into place when all are there."""
    terminal = Terminal(request.quiet)
    target = host_target()
    terminal.stage("model", f"{request.model.name} for this machine, {target.triple}")
    with publish(request) as part:
        model = Model(request.model.name, request.model.read_bytes())
        compiled = compile_model(model, target, lambda stage: terminal.stage(stage, STAGES.get(stage, "")))
        build_host(compiled, part)
    report = read_report(request.folder / "report.json")
    terminal.line(f"arena {report['arena']['bytes']:,} bytes, {len(report['dispatches'])} dispatches", "bold")
    for note in report["notes"]:
        terminal.line(f"note: {note}", "yellow")
