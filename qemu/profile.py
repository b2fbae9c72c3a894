# SPDX-License-Identifier: Apache-2.0
"""Exact instruction counts of each dispatch of a model, under QEMU.

The compiled model stores 1 + index to `<prefix>_dispatch` before each dispatch and 0 when `<prefix>_invoke` is done.
The counting plugin (qemu/plugin) notes how many instructions were executed at its entry and at each of these stores.
Where a QEMU loads no plugins, or the host has no compiler for it, -icount gives whole inferences by the board's clock.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from boards.board import Board
from qemu.command import Options
from qemu.console import Console, Timeouts
from qemu.inputs import InputMemory
from qemu.machine import Emulation, EmulatorError
from qemu.plugin import PluginUnavailable, build_plugin
from qemu.symbols import Symbols, code_range

WINDOW = 8
"""Commands sent ahead: QEMU's UARTs hold bytes back until the guest has taken them."""

CLOCK_HANDLER = "SysTick_Handler"
"""The one interrupt that the firmware takes; it comes when it comes, so it is left out of the counts."""


class ProfileError(Exception):
    """The counts do not fit the model: an inference did not make the stores that were expected."""


@dataclass(frozen=True)
class InferenceCount:
    """Instructions of one inference, from the entry of invoke up to and with the store that ends it.

    `entry` runs up to the first dispatch; `dispatches` has one count each, in order.
    """

    entry: int
    dispatches: tuple[int, ...]

    @property
    def total(self) -> int:
        return self.entry + sum(self.dispatches)


@dataclass(frozen=True)
class Profile:
    """One count an inference, in the order they ran. Not `exact`: only a mean total, in `total`, as `note` says.

    `runs`: how often the instruction at each address ran in the first inference, up to the first dispatch and in each.
    """

    exact: bool
    inferences: tuple[InferenceCount, ...]
    total: int
    note: str
    runs: tuple[Mapping[int, int], ...] = ()

    @property
    def spread(self) -> int:
        """The most instructions by which two inferences differ."""
        totals = [inference.total for inference in self.inferences]
        return max(totals) - min(totals) if totals else 0


def plugin_options(elf: Path, prefix: str, dispatches: int, out: Path, addresses: Path | None = None) -> Options:
    """How to run `elf` with the counting plugin, which writes `out`, and `addresses` where given. PluginUnavailable,
    KeyError for a missing symbol."""
    symbols = Symbols(elf)
    invoke, variable = symbols[f"{prefix}_invoke"], symbols[f"{prefix}_dispatch"]
    arguments: dict[str, int | Path] = {
        "start": invoke.address,
        "end": invoke.address + invoke.size,
        "variable": variable.address,
        "stores": dispatches + 1,
        "out": out,
    }
    if CLOCK_HANDLER in symbols and symbols[CLOCK_HANDLER].size:
        handler = symbols[CLOCK_HANDLER]
        arguments |= {"skip_start": handler.address, "skip_end": handler.address + handler.size}
    if addresses is not None:
        code_start, code_end = code_range(elf)
        arguments |= {"code_start": code_start, "code_end": code_end, "addresses": addresses}
    if "," in str(out):
        raise PluginUnavailable(f"QEMU takes no comma in a plugin's argument: {out}")
    return Options(plugin=",".join([str(build_plugin()), *(f"{key}={value}" for key, value in arguments.items())]))


def read_counts(out: Path, dispatches: int) -> tuple[InferenceCount, ...]:
    """The plugin's file. ProfileError where an inference did not have `dispatches` dispatches."""
    counts: list[InferenceCount] = []
    for number, line in enumerate(out.read_text().splitlines()):
        values = [int(field) for field in line.split()]
        if len(values) != dispatches + 1:
            raise ProfileError(f"inference {number} made {len(values)} dispatch stores, not {dispatches + 1}")
        counts.append(InferenceCount(values[0], tuple(values[1:])))
    return tuple(counts)


def read_runs(addresses: Path) -> tuple[Mapping[int, int], ...]:
    """The plugin's other file."""
    lines = ([int(field) for field in line.split()] for line in addresses.read_text().splitlines())
    return tuple(dict(zip(line[::2], line[1::2], strict=True)) for line in lines)


def profile(
    board: Board,
    elf: Path,
    prefix: str,
    dispatches: int,
    rows: Iterable[bytes],
    limit_s: float = 600.0,
    inputs: Sequence[tuple[str, int, int]] = (),
) -> Profile:
    """Count the instructions of one inference for each row of input bytes.

    Rows go over the console, or where `inputs` (as InputMemory takes them) is given into memory.
    EmulatorError, ConsoleError and ProfileError where the run fails.
    """
    rows = list(rows)
    timeouts = Timeouts(infer_s=limit_s)
    with tempfile.TemporaryDirectory(prefix="tinykiln-") as folder:
        out, addresses = Path(folder) / "counts", Path(folder) / "addresses"
        try:
            options = plugin_options(elf, prefix, dispatches, out, addresses)
            with Emulation(board.emulator, elf, limit_s, options) as emulation:
                emulation.resume()
                console = Console(emulation, WINDOW, timeouts)
                console.wait_ready()
                memory = InputMemory.of(elf, inputs) if inputs else None
                load = None if memory is None else partial(memory.load, emulation)
                for _ in console.run(rows, load):
                    pass
        except (PluginUnavailable, EmulatorError) as error:
            if isinstance(error, EmulatorError) and "plugin" not in str(error):
                raise
            return _estimate(board, elf, rows, limit_s, str(error).splitlines()[0])
        counts, runs = read_counts(out, dispatches), read_runs(addresses)
    if len(counts) != len(rows):
        raise ProfileError(f"{len(rows)} inferences were asked for and {len(counts)} counted")
    return Profile(True, counts, sum(count.total for count in counts) // max(1, len(counts)), "counted by plugin", runs)


def _estimate(board: Board, elf: Path, rows: list[bytes], limit_s: float, reason: str) -> Profile:
    """With virtual time at one nanosecond an instruction the board's clock counts instructions, thousands at a time."""
    microseconds = 0
    with Emulation(board.emulator, elf, limit_s, Options(icount=True)) as emulation:
        emulation.resume()
        console = Console(emulation, WINDOW, Timeouts(infer_s=limit_s))
        console.wait_ready()
        for row in rows:
            console.load(row)
            microseconds += console.infer().microseconds
    total = microseconds * 1000 // len(rows)
    if board.emulator.native:
        # Firmware for the board itself divides by the board's clock, and QEMU's machine may tick at another.
        total = total * board.clock_hz // board.emulator.clock_hz
    note = f"whole inferences only, by -icount and the board's clock, to about 1,000 instructions: {reason}"
    return Profile(False, (), total, note)
