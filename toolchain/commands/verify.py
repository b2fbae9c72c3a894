# SPDX-License-Identifier: Apache-2.0
"""`verify`: the firmware against the reference, output by output and operator by operator."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boards.board import Board
from boards.loader import board_names, load_board
from compiler.compile import as_stated, compile_graph, prepare
from compiler.errors import CheckFailed
from compiler.graph import Graph
from compiler.model import Model
from compiler.reference import evaluate, outputs_of_rows, reset_state
from compiler.selftest import generate_inputs
from toolchain.comparison import Difference, compare
from toolchain.emulation import Built, powered
from toolchain.firmware import build_firmware
from toolchain.options import FirmwareOptions
from toolchain.report import read_report
from toolchain.request import Request
from toolchain.rows import Samples, read_samples
from toolchain.target import target_of
from toolchain.terminal import Terminal

SECONDS = 3600.0
SEEDS = (1, 2, 3)


@dataclass(frozen=True)
class Divergence:
    """The first operator whose output is not the reference's."""

    row: int
    operator: str
    difference: Difference

    def __str__(self) -> str:
        return f"operator {self.operator}, input row {self.row}: {self.difference}"


def verify(request: Request) -> None:
    """Compares the firmware's outputs with the expected ones in `input` (or, without them, with the NumPy reference of
    TFLite Micro's kernels over the model as its file states it), then the output of every operator that is left after
    the passes on a roomy machine of the same core. Raises CheckFailed."""
    terminal, built = Terminal(request.quiet), Built.of(request)
    model = Model(request.model.name, request.model.read_bytes())
    graph = prepare(model)
    samples = read_samples(request.input, built.inputs, built.outputs) if request.input else _generated(graph)
    source = request.input.name if request.input else "generated inputs"
    terminal.stage("verify", f"{len(samples)} rows of {source} on {request.board.name} in the emulator")
    with powered(built, SECONDS) as board:
        found = board.infer(samples)
    expected = samples.outputs or _references(as_stated(model), samples)
    whole = compare(found, expected)
    terminal.stage("outputs", str(whole))
    divergence = _first_divergence(request.board, graph, model, samples, terminal)
    if divergence is None and whole.passed:
        terminal.verdict(True, f"{len(graph.operators)} operators and the outputs agree with the reference: {whole}")
        return
    told = f"first divergence at {divergence}" if divergence else f"the outputs differ from {source}: {whole}"
    terminal.verdict(False, told)
    raise CheckFailed(told)


def _first_divergence(
    board: Board, graph: Graph, model: Model, samples: Samples, terminal: Terminal
) -> Divergence | None:
    """Runs the graph with every operator's output kept, and compares each with the reference."""
    roomy = roomy_board(board)
    kept = [output for operator in graph.operators for output in operator.outputs]
    probe = replace(graph, outputs=tuple(kept), output_names=tuple(graph.tensor(i).name for i in kept))
    with tempfile.TemporaryDirectory(prefix="tinykiln-") as folder:
        compiled = compile_graph(probe, model, target_of(roomy.core))
        build_firmware(roomy, compiled, Path(folder), FirmwareOptions())
        built = Built(roomy, Path(folder), read_report(Path(folder) / "report.json"))
        with powered(built, SECONDS) as powered_board:
            outputs = powered_board.infer(samples)
    terminal.stage("operators", f"{len(graph.operators)} outputs, each against the reference, on {roomy.name}")
    tensors = dict(zip(kept, outputs, strict=True))
    state = reset_state(graph)
    for row, inputs in enumerate(_rows(samples)):
        values = evaluate(graph, inputs, state)
        for operator in graph.operators:
            for tensor in operator.outputs:
                difference = compare([tensors[tensor][row : row + 1]], [values[tensor][None]])
                if not difference.passed:
                    name = f"#{operator.index} {operator.op} '{graph.tensor(tensor).name}'"
                    return Divergence(row, name, difference)
    return None


def roomy_board(board: Board) -> Board:
    """The emulator's board with the most RAM among those of the same core, or of the same instruction set."""
    boards = [load_board(name) for name in board_names()]
    alike = [b for b in boards if b.core.isa == board.core.isa and b.emulator.native]
    return max(alike, key=lambda b: (b.core == board.core, b.ram.size))


def _generated(graph: Graph) -> Samples:
    """Random rows over the whole range, then all inputs at their lowest and at their highest values."""
    tensors = [graph.tensor(i) for i in graph.inputs]
    drawn = [generate_inputs(tensors, seed) for seed in SEEDS]
    low = [np.full(t.shape, _limits(t.dtype.numpy)[0], t.dtype.numpy) for t in tensors]
    high = [np.full(t.shape, _limits(t.dtype.numpy)[1], t.dtype.numpy) for t in tensors]
    rows = [*drawn, low, high]
    return Samples(tuple(np.stack([row[i] for row in rows]) for i in range(len(tensors))), (), None)


def _limits(dtype: np.dtype[Any]) -> tuple[float, float]:
    if dtype.kind == "f":
        return -1.0, 1.0
    info = np.iinfo(dtype)
    return info.min, info.max


def _rows(samples: Samples) -> Iterator[list[NDArray[Any]]]:
    for row in range(len(samples)):
        yield [array[row] for array in samples.inputs]


def _references(graph: Graph, samples: Samples) -> Sequence[NDArray[Any]]:
    outputs = list(outputs_of_rows(graph, _rows(samples)))
    return [np.stack([row[i] for row in outputs]) for i in range(len(graph.outputs))]
