# SPDX-License-Identifier: Apache-2.0
"""What the MLPerf Tiny models should take, beside what they take: `python -m bench.targets [MODEL ...]`.

Builds, runs and counts the models on five cores, and prints each figure beside its target and beside that of TFLite
Micro with CMSIS-NN where there is one. Every figure is measured in the run. The models are looked for in
../shared/zoo/models, or in the folder that --models names; figures of models that are not there are left out with the
reason. Exit code 1 where a target is missed, 2 where nothing was measured or an image cannot be built.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from bench import models, sizes, times
from bench.anchors import ANCHORS, BOARDS, FOLDER, MODELS
from bench.models import Measured
from compiler.errors import CheckFailed, UserError
from compiler.model import Model
from compiler.settings import Optimize
from toolchain.report.columns import Column
from toolchain.report.terminal import Terminal

CORES = {**BOARDS, "M33": "qemu_m33"}
_DSP = {"ic": 7.5, "vww": 4.9, "kws": 2.9, "ad": 0.26}
SPEED = {
    "M4": _DSP,
    "M33": _DSP,
    "M55": {"ic": 2.1, "vww": 1.65, "kws": 0.88, "ad": 0.052},
    "RV32IMAC": {"ic": 17.0, "vww": 12.0, "kws": 8.2, "ad": 0.60},
    "M0": {"ic": 36.0, "vww": 24.0, "kws": 16.0, "ad": 0.85},
}
"""Millions of instructions at most, at optimize=speed."""
BALANCED = {"ic": 8.5, "vww": 4.9, "kws": 2.9, "ad": 0.35}
"""The same at optimize=balanced, on Cortex-M4."""
FLASH = {"ic": 151_600, "vww": 388_620, "kws": 109_268, "ad": 306_624}
"""Bytes of code and model of TFLite Micro with CMSIS-NN on Cortex-M4: balanced images have no more."""
FASTER = {"M4": 3.3, "M55": 2.7, "RV32IMAC": 2.95, "M0": 2.5}
"""Times the instructions of TFLite Micro with CMSIS-NN, geometric mean of the four models, at optimize=speed."""
REFERENCE = {"ic": 125_526_416, "vww": 109_940_990, "kws": 44_314_545, "ad": 2_480_334}
"""Instructions of TFLite Micro's reference kernels on RV32IMAC."""
FASTER_THAN_REFERENCE = 6.0
ARENA = {"ic": 40_000, "vww": 41_000, "kws": 9_500, "ad": 1_500}
"""Bytes on Cortex-M4 at optimize=speed, scratch included."""
SPREAD = 0.1
"""Per cent by which instructions on different inputs differ at most."""

Measure = Callable[[str, str, Optimize], Measured]
"""Of a model's name, a core and a setting."""


@dataclass(frozen=True)
class Figure:
    """A line: `value` should be at most `target`, or at least where `least`. `anchor` is TFLite Micro's, `why` the
    reason why there is no value."""

    model: str
    core: str
    what: str
    target: float
    value: float | None
    anchor: float | None = None
    least: bool = False
    why: str = ""

    @property
    def met(self) -> bool | None:
        """None where it was not measured."""
        if self.value is None:
            return None
        return self.value >= self.target if self.least else self.value <= self.target

    @property
    def verdict(self) -> str:
        return {True: "met", False: "missed", None: f"not measured: {self.why}"}[self.met]


def missing(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """By model: why it cannot be measured."""
    paths = {name: folder / f"{MODELS[name]}.tflite" for name in names}
    return {name: f"{path} is not there" for name, path in paths.items() if not path.is_file()}


def counted(names: Sequence[str], absent: Mapping[str, str], measure: Measure) -> Iterator[Figure]:
    """Instructions, spread and arena of emulated inferences."""
    for core in SPEED:
        found: dict[str, Measured] = {}
        for name in names:
            if name not in absent:
                found[name] = measure(name, core, Optimize.SPEED)
            yield from _fast(name, core, found.get(name), absent.get(name, ""))
        yield from _means(core, {name: measured.instructions for name, measured in found.items()})
    for name in names:
        why = absent.get(name, "")
        got = None if why else measure(name, "M4", Optimize.BALANCED)
        anchor = ANCHORS[name, "M4"].instructions
        instructions, flash = (got.instructions, got.flash) if got else (None, None)
        yield Figure(name, "M4", "instructions, balanced", _millions(BALANCED[name]), instructions, anchor, why=why)
        yield Figure(name, "M4", "flash, balanced", FLASH[name], flash, FLASH[name], why=why)


def _fast(name: str, core: str, got: Measured | None, why: str) -> Iterator[Figure]:
    anchor = ANCHORS.get((name, core))
    theirs, arena = (anchor.instructions, anchor.arena) if anchor else (None, None)
    instructions = got.instructions if got else None
    yield Figure(name, core, "instructions, speed", _millions(SPEED[core][name]), instructions, theirs, why=why)
    spread = 100 * got.spread / got.instructions if got else None
    yield Figure(name, core, "spread %, speed", SPREAD, spread, why=why)
    if core == "M4":
        yield Figure(name, core, "arena, speed", ARENA[name], got.arena if got else None, arena, why=why)


def _means(core: str, instructions: Mapping[str, int]) -> Iterator[Figure]:
    """Of all four models: of fewer, a mean says nothing about the target."""
    why = "" if set(instructions) == set(MODELS) else "a mean of all four models"
    if core in FASTER:
        theirs = {name: ANCHORS[name, core].instructions for name in MODELS}
        mean = None if why else geometric_mean([theirs[name] / ours for name, ours in instructions.items()])
        yield Figure("mean", core, "times faster, speed", FASTER[core], mean, 1.0, least=True, why=why)
    if core == "RV32IMAC":
        mean = None if why else geometric_mean([REFERENCE[name] / ours for name, ours in instructions.items()])
        yield Figure("mean", core, "times reference, speed", FASTER_THAN_REFERENCE, mean, 1.0, least=True, why=why)


def geometric_mean(values: Sequence[float]) -> float:
    """Of at least one positive number."""
    return float(prod(values) ** (1 / len(values)))


def sized(names: Sequence[str], absent: Mapping[str, str], folder: Path) -> Iterator[Figure]:
    """Flash and arena of images that are not run. A model that is not there has one line."""
    for name in names:
        if name in absent:
            yield Figure(name, "M4", "image, size", 0, None, why=absent[name])
        else:
            yield from map(_of_size, sizes.model_sizes(name, folder))
    yield from map(_of_size, sizes.nano_sizes())


def _of_size(size: sizes.Size) -> Figure:
    anchor = ANCHORS[size.model, size.core].code if size.what == "code, speed" else None
    return Figure(size.model, size.core, size.what, size.target, size.bytes, anchor)


def timed(names: Sequence[str], absent: Mapping[str, str], folder: Path) -> Iterator[Figure]:
    """Seconds of builds by the clock: on a busy machine they are more."""
    for name in (name for name in times.LIMITS if name in names):
        if name in absent:
            yield Figure(name, times.BOARD, "cold build, s", times.LIMITS[name], None, why=absent[name])
            continue
        for what, (elapsed, _), most in times.builds(name, folder, times.BOARD):
            yield Figure(name, times.BOARD, f"{what}, s", most, elapsed)


def _millions(count: float) -> int:
    return round(count * 1_000_000)


def told(number: float | None) -> str:
    """Counts and bytes whole, other numbers with two places."""
    if number is None:
        return ""
    return f"{number:,}" if isinstance(number, int) else f"{number:,.2f}"


def summary(figures: Sequence[Figure]) -> str:
    left = sum(figure.met is None for figure in figures)
    measured = len(figures) - left
    met = sum(figure.met is True for figure in figures)
    return f"{met} of {measured} targets met" + (f", {left} not measured" if left else "")


def exit_code(figures: Sequence[Figure]) -> int:
    """2 where nothing was measured, 1 where a target is missed, else 0."""
    if all(figure.met is None for figure in figures):
        return 2
    return int(any(figure.met is False for figure in figures))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.targets", description=__doc__)
    parser.add_argument("model", nargs="*", choices=[*MODELS, []], help="ic, vww, kws, ad; all without")
    parser.add_argument("--models", type=Path, default=FOLDER, help="folder of the MLPerf Tiny .tflite files")
    parser.add_argument("--inputs", type=int, default=models.ROWS, help="random inputs that each image is run on")
    arguments = parser.parse_args()
    if arguments.inputs < 2:
        parser.error(f"--inputs is {arguments.inputs}: at least 2, whose instructions are compared")
    names, folder, terminal = arguments.model or list(MODELS), arguments.models, Terminal()

    def measure(name: str, core: str, optimize: Optimize) -> Measured:
        path = folder / f"{MODELS[name]}.tflite"
        return models.measure(Model(path.name, path.read_bytes()), CORES[core], optimize, arguments.inputs)

    absent, figures = missing(folder, names), []
    try:
        for kind in (counted(names, absent, measure), sized(names, absent, folder), timed(names, absent, folder)):
            for figure in kind:
                terminal.stage(figure.model, f"{figure.core}: {figure.what} {told(figure.value)} {figure.verdict}")
                figures.append(figure)
    except (UserError, CheckFailed) as error:
        print(error, file=sys.stderr)
        return 2
    numbers = (Column(name, number=True) for name in ("ours", "target", "TFLM"))
    columns = (Column("model"), Column("core"), Column("figure"), *numbers, Column(""))
    rows = [(f.model, f.core, f.what, told(f.value), told(f.target), told(f.anchor), f.verdict) for f in figures]
    terminal.table(columns, rows)
    terminal.line(f"{summary(figures)}; spread over {arguments.inputs} random inputs")
    return exit_code(figures)


if __name__ == "__main__":
    sys.exit(main())
