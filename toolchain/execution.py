# SPDX-License-Identifier: Apache-2.0
"""Where a built model runs: a board under the emulator, or the building machine."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from boards.board import Board
from boards.loader import board_names, load_board
from compiler.codegen.host import host_target
from compiler.compile import compile_graph
from compiler.graph import Graph
from compiler.model import Model
from toolchain.device import connected
from toolchain.emulation import Built, forms_of, powered
from toolchain.firmware import build_firmware
from toolchain.host import HostProcess, job_of, read_job
from toolchain.options import FirmwareOptions
from toolchain.report.contents import read_report
from toolchain.request import HostRequest, Request
from toolchain.rows import Samples, TensorForm, split_outputs
from toolchain.target import target_of

SECONDS = 7200.0

Arrays = list[NDArray[Any]]


class Execution(Protocol):
    """`place` and `probe_place` say where, for people. Outputs are [rows, *shape]; rows of a stateful model are
    consecutive steps after a reset."""

    place: str
    probe_place: str
    inputs: tuple[TensorForm, ...]
    outputs: tuple[TensorForm, ...]

    def infer(self, samples: Samples) -> Arrays:
        """Runs the finished build. Raises CheckFailed where it faults."""
        ...

    def probe(self, graph: Graph, model: Model, samples: Samples) -> Arrays:
        """Compiles `graph`, a variant of the model's with more outputs, and runs it where there is room."""
        ...


def execution_of(request: Request | HostRequest) -> Execution:
    if isinstance(request, HostRequest):
        return _OnHost(request)
    return _OnDevice(request) if request.link.ports else _Emulated(request)


class _Emulated:
    def __init__(self, request: Request) -> None:
        self._built, self._roomy, self._settings = Built.of(request), roomy_board(request.board), request.settings
        self.place = f"{request.board.name} in the emulator"
        self.probe_place = f"{self._roomy.name} in the emulator"
        self.inputs, self.outputs = self._built.inputs, self._built.outputs

    def infer(self, samples: Samples) -> Arrays:
        with powered(self._built, SECONDS) as board:
            return board.infer(samples)

    def probe(self, graph: Graph, model: Model, samples: Samples) -> Arrays:
        with tempfile.TemporaryDirectory(prefix="tinykiln-") as folder:
            compiled = compile_graph(graph, model, target_of(self._roomy.core), settings=self._settings)
            build_firmware(self._roomy, compiled, Path(folder), FirmwareOptions())
            built = Built(self._roomy, Path(folder), read_report(Path(folder) / "report.json"))
            with powered(built, SECONDS) as board:
                return board.infer(samples)


class _OnDevice(_Emulated):
    """The build runs on the device; what has to be linked anew runs in the emulator."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._link = request.link
        self.place = f"{request.board.name} at {request.link.port}"

    def infer(self, samples: Samples) -> Arrays:
        with connected(self._built, self._link) as board:
            return board.infer(samples)


class _OnHost:
    def __init__(self, request: HostRequest) -> None:
        self._request, self._report = request, read_report(request.folder / "report.json")
        self.place = self.probe_place = "this machine"
        self.inputs, self.outputs = (forms_of(self._report[kind]) for kind in ("inputs", "outputs"))

    def infer(self, samples: Samples) -> Arrays:
        with HostProcess() as process:
            rows = process.run(read_job(self._request, self._report, tuple(samples.rows())))
        return split_outputs(rows, self.outputs)

    def probe(self, graph: Graph, model: Model, samples: Samples) -> Arrays:
        compiled = compile_graph(graph, model, host_target())
        forms = [TensorForm(p.name, p.dtype.numpy, p.shape) for p in compiled.outputs]
        with HostProcess() as process:
            return split_outputs(process.run(job_of(compiled, tuple(samples.rows()))), forms)


def roomy_board(board: Board) -> Board:
    """The emulator's board with the most RAM, of the same core where that has more than the board, else of the same
    instruction set."""
    boards = [load_board(name) for name in board_names()]
    alike = [b for b in boards if b.core.isa == board.core.isa and b.emulator.native]
    return max(alike, key=lambda b: (b.ram.size > board.ram.size, b.core == board.core, b.ram.size))
