# SPDX-License-Identifier: Apache-2.0
"""`run`: boots the firmware in the emulator, or talks to the device that has it: its self-test, then the samples that
lie beside the model. An application is booted in the emulator and listened to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from compiler.errors import CheckFailed, UserError
from toolchain.commands.run_application import run_application
from toolchain.comparison import Difference, compare
from toolchain.device import connected
from toolchain.emulation import Built, powered
from toolchain.report.terminal import Terminal
from toolchain.request import Request
from toolchain.rows import Samples, read_samples

SECONDS = 900.0


@dataclass(frozen=True)
class Outcome:
    """What was seen: self-test vectors that agreed, samples compared, stack bytes used."""

    vectors: int
    difference: Difference | None
    right: int | None
    stack_used: int


def run(request: Request) -> None:
    """Prints PASS or FAIL. Raises CheckFailed where the firmware computes other bytes than the reference."""
    if request.app is not None:
        run_application(request)
        return
    terminal, built = Terminal(request.quiet), Built.of(request)
    samples = _samples(request.model, built)
    on_device = bool(request.link.ports)
    place = f"{request.board.name} at {request.link.port}" if on_device else f"{built.elf.name} on {_machine(request)}"
    terminal.stage("device" if on_device else "boot", place)
    with connected(built, request.link) if on_device else powered(built, SECONDS) as board:
        test = board.console.self_test()
        if test.failure is not None:
            terminal.verdict(False, f"self-test: {test.failure}")
            raise CheckFailed(f"the self-test fails: {test.failure}")
        terminal.stage("self-test", f"{test.vectors} vectors give the reference's bytes")
        difference, right = None, None
        if samples is not None:
            found = board.infer(samples)
            difference = compare(found, samples.outputs)
            terminal.stage("samples", str(difference))
            if samples.labels is not None:
                classes = found[0].reshape(len(samples), -1).argmax(axis=1)
                right = int(np.count_nonzero(classes == samples.labels))
                terminal.stage("", "device says  " + " ".join(map(str, classes[:20])))
                terminal.stage("", "labels say   " + " ".join(map(str, samples.labels[:20])))
        used = board.stack_used()
    _conclude(terminal, built, Outcome(test.vectors, difference, right, used), samples)


def _machine(request: Request) -> str:
    return request.board.emulator.machine


def _conclude(terminal: Terminal, built: Built, outcome: Outcome, samples: Samples | None) -> None:
    bound = built.report["stack"]["bound"]
    built.report["stack"]["measured"] = outcome.stack_used
    built.record()
    terminal.stage("stack", f"{outcome.stack_used:,} bytes used of a proven bound of {bound:,}")
    if outcome.stack_used > bound:
        terminal.verdict(False, "the stack went beyond its proven bound")
        raise CheckFailed(f"{outcome.stack_used} bytes of stack were used where {bound} were proven enough")
    if outcome.difference is not None and not outcome.difference.passed:
        terminal.verdict(False, f"samples: {outcome.difference}")
        raise CheckFailed(f"the samples' outputs differ: {outcome.difference}")
    told = [f"self-test of {outcome.vectors} vectors"]
    if samples is not None:
        told.append(
            f"{len(samples)} samples bit-exact"
            if outcome.difference and outcome.difference.exact
            else f"{len(samples)} samples within tolerance"
        )
    if outcome.right is not None and samples is not None:
        told.append(f"{outcome.right} of {len(samples)} classified as labelled")
    terminal.verdict(True, ", ".join(told))


def _samples(model: Path, built: Built) -> Samples | None:
    """Rows with their expected outputs from <model>.samples.npz beside the model file; None where there is no such
    file. UserError for inputs alone: there would be nothing to compare."""
    path = model.with_suffix(".samples.npz")
    if not path.is_file():
        return None
    samples = read_samples(path, built.inputs, built.outputs)
    if not samples.outputs:
        raise UserError(
            "the samples beside the model have no expected outputs",
            where=path.name,
            got="inputs alone",
            allowed="out0, ... with a row for each of in0, ...",
            hint=f"name them input={path.name} for infer or verify, and the file otherwise",
        )
    return samples
