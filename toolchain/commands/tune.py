# SPDX-License-Identifier: Apache-2.0
"""`tune`: measures every kernel that the models could use on the board's core, for builds with tuning=."""

from __future__ import annotations

from dataclasses import replace

from compiler.compile import prepare
from compiler.costs import Costs, shipped_file
from compiler.errors import CheckFailed
from compiler.fusion import scheduled
from compiler.graph import Graph
from compiler.isa import Isa, load_isa
from compiler.model import Model
from compiler.pricing import cost_file, instructions_of, still_known
from compiler.settings import Settings
from qemu.console import ConsoleError
from qemu.machine import EmulatorError
from qemu.profile import ProfileError
from toolchain.files import write_text
from toolchain.measure.calls import candidates_in, roomy_board, unknown
from toolchain.measure.search import search
from toolchain.measure.tuning import read_tuning
from toolchain.report.terminal import Terminal
from toolchain.request import ROOT, Request
from toolchain.target import target_of


def tune(request: Request) -> None:
    """Writes the tuning file; what it holds already is not measured again. Tells what measuring has gained."""
    terminal, target = Terminal(request.quiet), target_of(request.board.core)
    isa = load_isa(target)
    models = [Model(path.name, path.read_bytes()) for path in request.models]
    graphs = [prepare(model) for model in models]
    candidates = [candidate for graph in graphs for candidate in candidates_in(graph, isa)]
    calls = [call for candidate in candidates for call in candidate.lowered.calls]
    known, path = Costs(), request.tuned
    for file in (shipped_file(target.isa), read_tuning(path, request.board.core, True) if path.is_file() else None):
        if file is not None:
            known = known.joined(still_known(file, target, calls))
    left = unknown(candidates, known)
    terminal.stage("tune", f"{len(left):,} of {len(candidates):,} lowerings to measure on {target.core}")

    def told(done: int, programs: int) -> None:
        terminal.stage("", f"program {done} of {programs}")

    try:
        costs = known.joined(search(roomy_board(request.board.core), left, request.scheduler, told))
    except (ConsoleError, EmulatorError, ProfileError) as error:
        raise CheckFailed(f"kernels for {target.core} under the emulator: {error}") from error
    write_text(path, cost_file(target, calls, costs).text)
    for model, graph in zip(models, graphs, strict=True):
        terminal.line(f"{model.name}: {_gain(graph, isa, request.settings, len(model.data), costs)}")
    terminal.line(f"build with tuning={path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}", "bold")


def _gain(graph: Graph, isa: Isa, settings: Settings, model_bytes: int, costs: Costs) -> str:
    estimated, measured = (
        sum(instructions_of(d.lowered, costs) or 0 for d in scheduled(graph, isa, one, model_bytes).dispatches)
        for one in (replace(settings, costs=Costs()), replace(settings, costs=costs))
    )
    gained = 100 * (1 - measured / estimated)
    return f"{measured:,} instructions as measured, {estimated:,} as estimates would choose ({gained:+.2f} % fewer)"
