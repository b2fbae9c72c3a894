# SPDX-License-Identifier: Apache-2.0
"""`profile`: exact instruction counts of each dispatch, under the emulator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from compiler.errors import CheckFailed
from qemu.console import ConsoleError
from qemu.machine import EmulatorError
from qemu.profile import Profile, ProfileError
from qemu.profile import profile as count_instructions
from toolchain.columns import Column
from toolchain.emulation import Built, require_console
from toolchain.report import short_name
from toolchain.request import Request
from toolchain.rows import TensorForm, read_samples
from toolchain.terminal import Terminal

ROWS = 2
SECONDS = 1800.0


def profile(request: Request) -> None:
    """Prints and records (in report.json) the instructions of each dispatch, for the rows of `input` or random ones."""
    terminal, built = Terminal(request.quiet), Built.of(request)
    rows = _rows(request.input, built)
    dispatches = built.report["dispatches"]
    terminal.stage(
        "profile", f"{len(rows)} inferences on {request.board.core.name} under {request.board.emulator.machine}"
    )
    require_console(built)
    try:
        counted = count_instructions(
            request.board, built.elf, built.prefix, len(dispatches), rows, SECONDS, built.input_places
        )
    except (ConsoleError, EmulatorError, ProfileError) as error:
        raise CheckFailed(f"{built.elf.name} on {request.board.name} under the emulator: {error}") from error
    if counted.exact:
        for dispatch, instructions in zip(dispatches, counted.inferences[0].dispatches, strict=True):
            dispatch["instructions"] = instructions
    built.report["instructions"] = counted.total
    built.record()
    _print(terminal, built, counted)


def _print(terminal: Terminal, built: Built, counted: Profile) -> None:
    rows = []
    for d in built.report["dispatches"] if counted.exact else ():
        each = f"{d['instructions'] / d['macs']:.2f}" if d["macs"] else ""
        share = f"{100 * d['instructions'] / max(counted.total, 1):.1f} %"
        name = short_name(d["name"])
        rows.append((d["index"], d["op"], name, d["kernel"], d["macs"], d["instructions"], share, each))
    columns = (
        Column("#", number=True),
        Column("operator"),
        Column("output", cut=True, spare=2),
        Column("kernel", cut=True, spare=1),
        *(Column(name, number=True) for name in ("MACs", "instructions", "share", "a MAC")),
    )
    terminal.table(columns, rows)
    macs = sum(d["macs"] for d in built.report["dispatches"])
    rate = f", {counted.total / macs:.3f} a MAC" if macs else ""
    spread = f"; between inputs they differ by up to {counted.spread:,}" if counted.spread else ""
    terminal.line(f"{counted.total:,} instructions an inference{rate} ({counted.note}{spread})", "bold")


def _rows(path: Path | None, built: Built) -> list[bytes]:
    if path is not None:
        return list(read_samples(path, built.inputs, built.outputs).rows())
    return random_rows(built.inputs, ROWS)


def random_rows(inputs: Sequence[TensorForm], count: int) -> list[bytes]:
    """Rows of inputs drawn from a fixed seed."""
    random = np.random.default_rng(0)
    return [b"".join(_random(random, form) for form in inputs) for _ in range(count)]


def _random(random: np.random.Generator, form: TensorForm) -> bytes:
    """Values over the whole range of integers, and from -1 to 1 for floats."""
    if form.dtype.kind == "f":
        return random.uniform(-1, 1, form.shape).astype(form.dtype).tobytes()
    return random.integers(0, 256, form.bytes, np.uint8).tobytes()
