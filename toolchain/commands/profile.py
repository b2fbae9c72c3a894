# SPDX-License-Identifier: Apache-2.0
"""`profile`: exact instruction counts of each dispatch, under the emulator; or its cycles, on a device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from compiler.errors import CheckFailed, UserError
from qemu.console import ConsoleError, CycleCount
from qemu.machine import EmulatorError
from qemu.profile import Profile, ProfileError
from qemu.profile import profile as count_instructions
from toolchain.device import connected
from toolchain.elf.disassembly import disassemble
from toolchain.emulation import Built, require_console
from toolchain.gcc import compiler_for
from toolchain.measure.cycles import Timing, estimate, timing_of
from toolchain.report.columns import Column
from toolchain.report.contents import short_name
from toolchain.report.terminal import Terminal
from toolchain.request import Request
from toolchain.rows import TensorForm, read_samples
from toolchain.serial_link import Link

ROWS = 2
SECONDS = 1800.0


def profile(request: Request) -> None:
    """Prints and records (in report.json) the cost of each dispatch, for the rows of `input` or random ones."""
    terminal, built = Terminal(request.quiet), Built.of(request)
    require_console(built)
    rows = _rows(request.input, built)
    if request.link.ports:
        _cycles(terminal, built, rows, request.link)
    else:
        _instructions(terminal, built, rows)


def _instructions(terminal: Terminal, built: Built, rows: list[bytes]) -> None:
    if built.report["console"] == "profile":
        raise UserError(
            "this firmware counts cycles, which are a device's",
            got="console=profile without port=",
            allowed="port= of the device, or console=uart for instructions in the emulator",
        )
    dispatches = built.report["dispatches"]
    terminal.stage("profile", f"{len(rows)} inferences on {built.board.core.name} under {built.board.emulator.machine}")
    try:
        counted = count_instructions(
            built.board, built.elf, built.prefix, len(dispatches), rows, SECONDS, built.input_places
        )
    except (ConsoleError, EmulatorError, ProfileError) as error:
        raise CheckFailed(f"{built.elf.name} on {built.board.name} under the emulator: {error}") from error
    if counted.exact:
        timing = timing_of(built.board.core.name)
        if timing is not None:
            cycles = _estimates(built, timing, counted)
            _record(built, "cycles_estimate", cycles[1:], sum(cycles))
        _record(built, "instructions", counted.inferences[0].dispatches, counted.total)
        _table(terminal, built, "instructions")
    else:
        _record(built, "instructions", None, counted.total)
    terminal.line(_instructions_told(built, counted), "bold")
    if built.report["cycles_estimate"] is not None:
        total = built.report["cycles_estimate"]
        terminal.line(f"{total:,} cycles estimated from published timings, without wait states (docs/PERFORMANCE.md)")


def _estimates(built: Built, timing: Timing, counted: Profile) -> list[int]:
    """Cycles up to the first dispatch and of each."""
    code = disassemble(compiler_for(built.board.core, built.folder.resolve()), built.elf)
    return [estimate(timing, code, runs) for runs in counted.runs]


def _instructions_told(built: Built, counted: Profile) -> str:
    spread = f"; between inputs they differ by up to {counted.spread:,}" if counted.spread else ""
    return f"{counted.total:,} instructions an inference{_rate(built, counted.total)} ({counted.note}{spread})"


def _cycles(terminal: Terminal, built: Built, rows: list[bytes], link: Link) -> None:
    if built.report["console"] != "profile":
        raise _does_not_count("this firmware", f"console={built.report['console']}")
    terminal.stage("profile", f"{len(rows)} inferences on {built.board.name} at {link.port}")
    counts: list[CycleCount] = []
    with connected(built, link) as board:
        if not any("cycles" in line.split() for line in board.console.command("help")):
            raise _does_not_count("the firmware on the device", "another build of this model")
        if built.report["model"]["stateful"]:
            board.console.reset()
        for row in rows:
            board.console.load(row)
            counts.append(board.console.cycles())
    expected = len(built.report["dispatches"])
    if any(len(count.dispatches) != expected for count in counts):
        raise UserError(
            "the device runs another build of this model",
            where=link.port,
            got=f"{len(counts[0].dispatches)} dispatches",
            allowed=str(expected),
            hint="flash this build first: the target `flash`",
        )
    means = [sum(values) // len(counts) for values in zip(*(count.dispatches for count in counts), strict=True)]
    totals = [sum(count.dispatches) for count in counts]
    _record(built, "cycles", means, sum(means))
    _table(terminal, built, "cycles")
    spread = f"; between inferences they differ by up to {max(totals) - min(totals):,}"
    told = f"measured on the device by its {counts[0].counter}, mean of {len(counts)} inferences{spread}"
    terminal.line(f"{sum(means):,} cycles an inference{_rate(built, sum(means))} ({told})", "bold")


def _does_not_count(what: str, got: str) -> UserError:
    return UserError(
        f"{what} does not count cycles",
        got=got,
        allowed="console=profile",
        hint="build and flash it so: console=profile port=... flash profile",
    )


def _record(built: Built, unit: str, dispatches: Sequence[int] | None, total: int) -> None:
    """Into report.json: `unit` is instructions, cycles or cycles_estimate."""
    if dispatches is not None:
        for dispatch, count in zip(built.report["dispatches"], dispatches, strict=True):
            dispatch[unit] = count
    built.report[unit] = total
    built.record()


def _table(terminal: Terminal, built: Built, unit: str) -> None:
    total = sum(d[unit] for d in built.report["dispatches"])
    estimated = built.report["cycles_estimate"] is not None
    rows = []
    for d in built.report["dispatches"]:
        each = f"{d[unit] / d['macs']:.2f}" if d["macs"] else ""
        share = f"{100 * d[unit] / max(total, 1):.1f} %"
        row = (d["index"], d["op"], short_name(d["name"]), d["kernel"], d["macs"], d[unit], share, each)
        rows.append((*row, d["cycles_estimate"]) if estimated else row)
    columns = (
        Column("#", number=True),
        Column("operator"),
        Column("output", cut=True, spare=2),
        Column("kernel", cut=True, spare=1),
        *(Column(name, number=True) for name in ("MACs", unit, "share", "a MAC")),
        *([Column("cycles, estimated", number=True)] if estimated else []),
    )
    terminal.table(columns, rows)


def _rate(built: Built, total: int) -> str:
    macs = sum(d["macs"] for d in built.report["dispatches"])
    return f", {total / macs:.3f} a MAC" if macs else ""


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
