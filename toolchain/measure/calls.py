# SPDX-License-Identifier: Apache-2.0
"""Measures calls of kernels in the emulator: exact instructions, and bytes of code.

Lowerings become the dispatches of one program, call by call and in order, for a call may read from scratch memory what
the one before has left there. Instructions do not depend on the values of inputs, so zeros will do.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from boards.board import Board, Core
from boards.loader import board_names, load_board
from compiler.artifact import CompiledModel, Port
from compiler.codegen.objects import Accessor, ArenaAddress, BoundCall, Program, generate_objects
from compiler.costs import Costs
from compiler.fusion import fused
from compiler.graph import DType, Graph
from compiler.isa import Isa
from compiler.kernels.compact import quick
from compiler.kernels.kernel import Constant, KernelCall, Lowered, Place, Role
from compiler.pricing import call_key
from compiler.schedule import Dispatch, Schedule, build_schedule
from qemu.profile import profile
from qemu.symbols import Symbols
from toolchain.firmware import build_firmware
from toolchain.options import FirmwareOptions
from toolchain.target import target_of

EMULATED = "qemu_"
"""How the names of boards start that are all the memory of an emulated machine."""
PREFIX = "tune"
SECONDS = 1800.0
PORT = 16
"""Bytes of the program's own input and output, which the console wants."""
GAP = 64
"""Bytes between operands."""
ROOM = 1 / 4
"""The part of an emulated board's flash that the constants of one program may take."""
MOST = 64
"""Lowerings of one program at most: a fault or Ctrl-C costs no more than these."""


@dataclass(frozen=True)
class Candidate:
    """A lowering, and the bytes of its operands."""

    lowered: Lowered
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of its calls."""
        return tuple(call_key(call) for call in self.lowered.calls)


def candidates_in(graph: Graph, isa: Isa) -> Iterator[Candidate]:
    """All lowerings of a graph's operators, and of the chains that they may be fused to."""
    whole = build_schedule(graph, isa)
    for schedule in (whole, *fused(whole, isa)):
        yield from _candidates_of(schedule)


def _candidates_of(schedule: Schedule) -> Iterator[Candidate]:
    for dispatch in schedule.dispatches:
        for lowered in quick(dispatch.lowered):
            yield Candidate(lowered, *_operands(schedule, dispatch))


def _operands(schedule: Schedule, dispatch: Dispatch) -> tuple[tuple[int, ...], tuple[int, ...]]:
    sizes = schedule.buffer_bytes
    reads = tuple(0 if region is None else sizes[region.buffer] for region in dispatch.reads)
    return reads, tuple(sizes[region.buffer] for region in dispatch.writes)


def unknown(candidates: Iterable[Candidate], costs: Costs) -> list[Candidate]:
    """Those with calls that nobody has measured, each class once."""
    known, left = set(costs.instructions), []
    for candidate in candidates:
        if not known.issuperset(candidate.keys):
            known.update(candidate.keys)
            left.append(candidate)
    return left


def roomy_board(core: Core) -> Board:
    """An emulated board with plenty of memory for the core: its own, or that of one with the same instructions."""
    boards = (load_board(name) for name in board_names() if name.startswith(EMULATED))
    alike = [board for board in boards if (board.core.isa, board.core.triple) == (core.isa, core.triple)]
    return next((board for board in alike if board.core == core), replace(alike[0], core=core))


def batches(candidates: Sequence[Candidate], board: Board) -> list[tuple[Candidate, ...]]:
    """Programs' worth of candidates."""
    room = int(board.constants.size * ROOM)
    found: list[tuple[Candidate, ...]] = []
    batch: list[Candidate] = []
    size = 0
    for candidate in candidates:
        more = sum(len(a.data) for call in candidate.lowered.calls for a in call.arguments if isinstance(a, Constant))
        if batch and (size + more > room or len(batch) == MOST):
            found.append(tuple(batch))
            batch, size = [], 0
        batch.append(candidate)
        size += more
    return [*found, tuple(batch)] if batch else found


def measure(board: Board, batch: Sequence[Candidate]) -> Costs:
    """Builds, runs and counts. UserError, EmulatorError and ProfileError where that fails."""
    calls = [call for candidate in batch for call in candidate.lowered.calls]
    model = _model(board, batch)
    with tempfile.TemporaryDirectory(prefix="tinykiln-") as name:
        result = build_firmware(board, model, Path(name), FirmwareOptions())
        counted = profile(board, result.runs, PREFIX, len(calls), [bytes(PORT)], SECONDS)
        symbols = Symbols(result.runs)
        code = {call.kernel.name: symbols[call.kernel.name].size for call in calls}
    if not counted.exact:
        raise RuntimeError(f"this QEMU counts no instructions exactly: {counted.note}")
    counts = counted.inferences[0].dispatches
    return Costs({call_key(call): count for call, count in zip(calls, counts, strict=True)}, code)


def _model(board: Board, batch: Sequence[Candidate]) -> CompiledModel:
    placed = [_placed(candidate) for candidate in batch]
    steps = tuple((call,) for calls, _ in placed for call in calls)
    arena = max(size for _, size in placed)
    ports = [Port(f"{PREFIX}_{kind}_0", kind, DType.INT8, (PORT,), PORT, 0, (), ()) for kind in ("input", "output")]
    accessors = tuple(Accessor(port.symbol, ArenaAddress(0)) for port in ports)
    objects = generate_objects(Program(PREFIX, arena, steps, accessors), target_of(board.core))
    return CompiledModel(
        name=PREFIX,
        prefix=PREFIX,
        sha256="",
        target_core=board.core.name,
        inputs=(ports[0],),
        outputs=(ports[1],),
        inputs_kept=True,
        stateful=False,
        arena_bytes=arena,
        arena_lower_bound=0,
        arena_tensors=(),
        constants_bytes=0,
        dispatches=(),
        objects=objects,
        vectors=(),
    )


def _placed(candidate: Candidate) -> tuple[list[BoundCall], int]:
    """The calls with addresses for operands and scratch memory, one behind the other; and where they end."""
    at = PORT
    starts: dict[tuple[Role, int], int] = {}
    for role, sizes in ((Role.INPUT, candidate.inputs), (Role.OUTPUT, candidate.outputs)):
        for index, size in enumerate(sizes):
            starts[role, index] = at = -(-at // 16) * 16
            at += size + GAP
    starts[Role.SCRATCH, 0] = at = -(-at // 16) * 16
    return [_bound(call, starts) for call in candidate.lowered.calls], at + candidate.lowered.scratch_bytes + GAP


def _bound(call: KernelCall, starts: dict[tuple[Role, int], int]) -> BoundCall:
    arguments = (
        ArenaAddress(starts[a.role, a.index] + a.offset) if isinstance(a, Place) else a for a in call.arguments
    )
    return BoundCall(call.kernel, tuple(arguments))
