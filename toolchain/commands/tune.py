# SPDX-License-Identifier: Apache-2.0
"""`tune`: measures every kernel that the models could use on the board's core, for builds with tuning=."""

from __future__ import annotations

from dataclasses import replace

from compiler.compile import prepare
from compiler.costs import CostFile, Costs, shipped_file
from compiler.errors import CheckFailed
from compiler.fusion import scheduled
from compiler.graph import Graph
from compiler.isa import Isa, load_isa
from compiler.model import Model
from compiler.pricing import cost_file, instructions_of
from compiler.settings import Settings
from qemu.console import ConsoleError
from qemu.machine import EmulatorError
from qemu.profile import ProfileError
from toolchain.files import write_text
from toolchain.measuring import candidates_in, roomy_board, unknown
from toolchain.request import ROOT, Request
from toolchain.searching import search
from toolchain.target import target_of
from toolchain.terminal import Terminal
from toolchain.tuning import read_tuning


def tune(request: Request) -> None:
    """Writes the tuning file; what it holds already is not measured again. Tells what measuring has gained."""
    terminal, core = Terminal(request.quiet), request.board.core
    isa = load_isa(target_of(core))
    models = [Model(path.name, path.read_bytes()) for path in request.models]
    graphs = [prepare(model) for model in models]
    candidates = [candidate for graph in graphs for candidate in candidates_in(graph, isa)]
    path = request.tuned
    files = (shipped_file(core.isa), read_tuning(path, core, allow_stale=True) if path.is_file() else None)
    known = _known(files, core.name)
    left = unknown(candidates, known)
    terminal.stage(
        "tune", f"{len(left):,} of {len(candidates):,} ways to run operators are to be measured on {core.name}"
    )

    def told(done: int, programs: int) -> None:
        terminal.stage("", f"program {done} of {programs}")

    try:
        costs = known.joined(search(roomy_board(core), left, request.scheduler, told))
    except (ConsoleError, EmulatorError, ProfileError) as error:
        raise CheckFailed(f"kernels for {core.name} under the emulator: {error}") from error
    calls = [call for candidate in candidates for call in candidate.lowered.calls]
    write_text(path, cost_file(core.isa, core.name, calls, costs).text)
    for model, graph in zip(models, graphs, strict=True):
        terminal.line(f"{model.name}: {_gain(graph, isa, request.settings, len(model.data), costs)}")
    terminal.line(f"build with tuning={path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}", "bold")


def _known(files: tuple[CostFile | None, ...], core: str) -> Costs:
    """What is known of this very core."""
    known = Costs()
    for file in files:
        if file is not None and file.core == core:
            known = known.joined(file.costs)
    return known


def _gain(graph: Graph, isa: Isa, settings: Settings, model_bytes: int, costs: Costs) -> str:
    estimated, measured = (
        sum(instructions_of(d.lowered, costs) or 0 for d in scheduled(graph, isa, one, model_bytes).dispatches)
        for one in (replace(settings, costs=Costs()), replace(settings, costs=costs))
    )
    gained = 100 * (1 - measured / estimated)
    return f"{measured:,} instructions as measured, {estimated:,} as estimates would choose ({gained:+.2f} % fewer)"
