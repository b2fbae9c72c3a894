# SPDX-License-Identifier: Apache-2.0
"""What becomes of many small models on a core: matched, refused, or failing, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from compiler.compile import compile_graph
from compiler.errors import UserError
from compiler.support import check_supported
from tests.harness import run, target_for
from tests.programs import Entry, Outputs, batches, core_boards, memory_bytes, run_program
from tests.zoo.golden import Case

SECONDS = 1800


class Verdict(Enum):
    MATCHED = "matched"
    REFUSED = "refused"
    TOO_LARGE = "too large"
    FAILING = "failing"


@dataclass(frozen=True)
class Outcome:
    """The verdict on a model; `reason` is empty where it matched."""

    name: str
    verdict: Verdict
    reason: str = ""


def outcomes(core: str, names: Sequence[str], load: Callable[[str], Case], folder: Path) -> Iterator[Outcome]:
    """Compiles the models for a core and runs them, many to a program. `load` gives the case of a name.

    A model is refused by a UserError of the compiler; whatever else keeps it from giving its golden outputs is a
    failure.
    """
    cases: dict[str, Case] = {}
    entries: list[Entry] = []
    known: dict[str, str] = {}
    for name in names:
        try:
            case = load(name)
            check_supported(case.graph, name)
            entry = Entry(compile_graph(case.graph, case.model, target_for(core)), case.rows)
        except UserError as refusal:
            yield Outcome(name, Verdict.REFUSED, str(refusal))
        except Exception as fault:
            yield Outcome(name, Verdict.FAILING, f"{type(fault).__name__}: {fault}")
        else:
            if not fits(core, entry):
                yield Outcome(name, Verdict.TOO_LARGE, f"an arena of {entry.model.arena_bytes} bytes")
                continue
            assert entry.model.prefix not in known, f"{name} and {known[entry.model.prefix]} have one C name"
            known[entry.model.prefix] = name
            cases[name] = case
            entries.append(entry)
    for number, batch in enumerate(batches(entries) if entries else ()):
        yield from _ran(batch, known, cases, folder / str(number))


def fits(core: str, entry: Entry) -> bool:
    """Whether the machine of the core has the memory."""
    if core == "host":
        return True
    flash, ram = memory_bytes(core)
    return entry.flash_bytes < flash and entry.arena_bytes_with_stack < ram


def _ran(batch: Sequence[Entry], known: dict[str, str], cases: dict[str, Case], folder: Path) -> Iterator[Outcome]:
    """Runs a program; where it faults, each model in one of its own."""
    results: list[Outputs | str]
    try:
        results = list(_run(batch, folder))
    except AssertionError:
        results = []
        for entry in batch:
            try:
                results += _run([entry], folder / entry.model.prefix)
            except Exception as fault:
                results.append(f"{type(fault).__name__}: {fault}")
    for entry, found in zip(batch, results, strict=True):
        name = known[entry.model.prefix]
        yield Outcome(name, Verdict.FAILING, found) if isinstance(found, str) else _compared(name, cases[name], found)


def _run(batch: Sequence[Entry], folder: Path) -> list[Outputs]:
    if batch[0].model.target_core == "host":
        return [run(entry.model, entry.rows, folder) for entry in batch]
    return run_program(batch, folder, SECONDS)


def _compared(name: str, case: Case, found: Outputs) -> Outcome:
    try:
        for row, outputs in enumerate(found):
            case.check(row, outputs)
    except AssertionError as difference:
        return Outcome(name, Verdict.FAILING, str(difference))
    return Outcome(name, Verdict.MATCHED)


CORES = tuple(core_boards())
