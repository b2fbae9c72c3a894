# SPDX-License-Identifier: Apache-2.0
"""Runs one compiled model, or one lowered layer, on an emulated core or on this machine (core "host")."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from boards.loader import load_board
from compiler.artifact import CompiledModel, Port
from compiler.codegen.host import host_target
from compiler.codegen.objects import Accessor, ArenaAddress, BoundCall, Program, generate_objects
from compiler.graph import DType
from compiler.isa import load_isa
from compiler.kernels.kernel import Lowered, Place, Role
from compiler.target import Target
from tests.programs import (
    Array,
    Entry,
    Image,
    Outputs,
    Rows,
    build_program,
    core_boards,
    run_program,
    split_outputs,
)
from toolchain.host import HostProcess, job_of
from toolchain.target import target_of

__all__ = ["build", "core_boards", "isa_of", "layer_model", "run", "run_layer", "run_on_host", "target_for"]


def target_for(core: str) -> Target:
    """The target of a core by its name, or of this machine."""
    return host_target() if core == "host" else target_of(load_board(core_boards()[core]).core)


def layer_model(
    core: str,
    lowered: Lowered,
    inputs: Sequence[Array],
    outputs: Sequence[tuple[DType, tuple[int, ...]]],
    prefix: str = "layer",
) -> CompiledModel:
    """One lowered layer as a model. `inputs` are one row's arrays (for their sizes), `outputs` dtypes and shapes."""
    at = 0

    def port(kind: str, number: int, dtype: DType, shape: tuple[int, ...]) -> Port:
        nonlocal at
        size = int(np.prod(shape)) * dtype.bytes
        made = Port(f"{prefix}_{kind}_{number}", f"{kind}{number}", dtype, shape, size, at, (), ())
        # 64 bytes between buffers, so that a write past the end of one is seen in its neighbour or not at all used.
        at += -(-size // 16) * 16 + 64
        return made

    ports_in = tuple(port("input", i, DType(str(x.dtype)), x.shape) for i, x in enumerate(inputs))
    ports_out = tuple(port("output", i, dtype, shape) for i, (dtype, shape) in enumerate(outputs))

    def bound(argument: Any) -> Any:
        if not isinstance(argument, Place):
            return argument
        if argument.role is Role.SCRATCH:
            return ArenaAddress(at + argument.offset)
        ports = ports_in if argument.role is Role.INPUT else ports_out
        return ArenaAddress(ports[argument.index].offset + argument.offset)

    calls = tuple(BoundCall(call.kernel, tuple(bound(a) for a in call.arguments)) for call in lowered.calls)
    accessors = tuple(Accessor(p.symbol, ArenaAddress(p.offset)) for p in (*ports_in, *ports_out))
    program = Program(prefix, at + lowered.scratch_bytes + 64, (calls,), accessors)
    objects = generate_objects(program, target_for(core))
    return CompiledModel(
        f"{prefix}.tflite",
        prefix,
        "",
        core,
        ports_in,
        ports_out,
        False,
        False,
        program.arena_bytes,
        0,
        (),
        0,
        (),
        objects,
        (),
    )


def isa_of(core: str) -> Any:
    return load_isa(target_for(core))


def build(model: CompiledModel, rows: Rows, folder: Path) -> Image:
    """Links a model with rows of inputs into a program for its core's machine."""
    return build_program([Entry(model, rows)], folder)


def run(model: CompiledModel, rows: Rows, folder: Path, seconds: int = 120) -> Outputs:
    """Runs the rows one after the other; returns each row's outputs. Raises AssertionError where the program faults."""
    if model.target_core == "host":
        return run_on_host(model, rows)
    return run_program([Entry(model, rows)], folder, seconds)[0]


def run_on_host(model: CompiledModel, rows: Rows) -> Outputs:
    """As `run`, on this machine. Raises CheckFailed where the code faults."""
    raw = tuple(b"".join(np.ascontiguousarray(x).tobytes() for x in row) for row in rows)
    return split_outputs(model, b"".join(_host().run(job_of(model, raw))), len(rows))


@cache
def _host() -> HostProcess:
    process = HostProcess()
    atexit.register(process.stop)
    return process


def run_layer(
    core: str,
    lowered: Lowered,
    rows: Sequence[Sequence[Array]],
    outputs: Sequence[tuple[DType, tuple[int, ...]]],
    folder: Path,
) -> list[list[Array]]:
    """Runs one lowered layer on rows of inputs."""
    return run(layer_model(core, lowered, rows[0], outputs), rows, folder)
