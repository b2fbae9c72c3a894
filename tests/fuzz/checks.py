# SPDX-License-Identifier: Apache-2.0
"""Random models against other runtimes and on cores; what differs is told by seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from compiler.compile import as_stated, compile_graph, prepare
from compiler.errors import UserError
from compiler.graph import Graph
from compiler.reference import tensors_of_rows
from compiler.settings import DEFAULT_SETTINGS, Settings
from tests.fuzz.models import Random, random_model
from tests.harness import run, target_for
from tests.programs import Entry, batches, run_program
from toolchain.comparison import compare
from toolchain.host import HostProcess, job_of
from toolchain.oracles.cross_check import Computed, cross_check
from toolchain.oracles.runtimes import Oracle
from toolchain.rows import Samples

Maker = Callable[[int], Random]
"""The model of a seed."""


def supported(seeds: Sequence[int], make: Maker = random_model) -> list[tuple[Random, Graph]]:
    """The models that can be compiled, simplified."""
    found = []
    for seed in seeds:
        made = make(seed)
        try:
            found.append((made, prepare(made.model)))
        except UserError:
            continue
    return found


def computed(made: Random) -> Computed:
    """The reference's tensors of a model as its file states it."""
    graph = as_stated(made.model)
    tensors = tensors_of_rows(graph, zip(*made.inputs, strict=True))
    outputs = [tensors[i] for i in graph.outputs]
    return Computed(graph, made.model.data, Samples(made.inputs, (), None), tensors, outputs)


def contradictions(seeds: Sequence[int], oracle: Oracle, make: Maker = random_model) -> tuple[list[str], int]:
    """Where the reference is not what an oracle computes, and how many models the oracle could run."""
    models = [made for made, _ in supported(seeds, make)]
    findings = cross_check([computed(made) for made in models], oracle)
    told = [f"{made.model.name}: {f}" for made, f in zip(models, findings, strict=True) if f.contradicts]
    return told, sum(f.refusal is None for f in findings)


def differences(
    seeds: Sequence[int], core: str, folder: Path, make: Maker = random_model, settings: Settings = DEFAULT_SETTINGS
) -> list[str]:
    """Where compiled models give other outputs than the reference."""
    entries, expected = [], []
    for made, graph in supported(seeds, make):
        compiled = compile_graph(graph, made.model, target_for(core), settings=settings)
        entries.append(Entry(compiled, list(zip(*made.inputs, strict=True))))
        expected.append(computed(made).outputs)
    if core == "host":
        results = [run(entry.model, entry.rows, folder) for entry in entries]
    else:
        parts = list(batches(entries))
        results = [r for n, part in enumerate(parts) for r in run_program(part, folder / str(n), 600)]
    told = []
    for entry, found, want in zip(entries, results, expected, strict=True):
        outputs = [np.stack([row[i] for row in found]) for i in range(len(want))]
        for number, (got, wanted) in enumerate(zip(outputs, want, strict=True)):
            difference = compare([got], [wanted])
            if not difference.passed:
                told.append(f"{entry.model.name}, output {number}: {difference}")
    return told


def overwritten(seeds: Sequence[int], process: HostProcess) -> tuple[list[str], int]:
    """Where inputs are lost that the compiler says to survive a run on this machine, and how many models say so."""
    told, kept = [], 0
    for made, graph in supported(seeds):
        model = compile_graph(graph, made.model, target_for("host"))
        if not model.inputs_kept:
            continue
        kept += 1
        rows = tuple(b"".join(array[row].tobytes() for array in made.inputs) for row in range(len(made.inputs[0])))
        job = job_of(model, rows)
        told += [made.model.name] if process.run(replace(job, outputs=job.inputs)) != list(rows) else []
    return told, kept
