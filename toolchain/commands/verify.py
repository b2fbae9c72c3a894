# SPDX-License-Identifier: Apache-2.0
"""`verify`: the built model against the reference, output by output and operator by operator; then against other
runtimes where they are installed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.compile import as_stated, prepare
from compiler.errors import CheckFailed
from compiler.graph import Graph
from compiler.model import Model
from compiler.reference import tensors_of_rows
from compiler.selftest import generate_inputs
from toolchain.comparison import compare
from toolchain.execution import Execution, execution_of
from toolchain.oracles.cross_check import Computed, cross_check, first_divergence
from toolchain.oracles.runtimes import find_oracles
from toolchain.report.terminal import Terminal
from toolchain.request import HostRequest, Request
from toolchain.rows import Samples, read_samples

SEEDS = (1, 2, 3)
NO_ORACLE = "no other runtime is installed; docs/VERIFY.md says how to install TFLite Micro and LiteRT"

Tensors = dict[int, NDArray[Any]]


def verify(request: Request | HostRequest) -> None:
    """Compares the outputs with the expected ones in `input` (or, without them, with the NumPy reference of TFLite
    Micro's kernels over the model as its file states it), the output of every operator that is left after the passes
    where there is room for them, then that reference and the outputs with the runtimes that are installed. Raises
    CheckFailed where something differs that should not."""
    terminal, execution = Terminal(request.quiet), execution_of(request)
    model = Model(request.model.name, request.model.read_bytes())
    graph, stated = prepare(model), as_stated(model)
    samples = read_samples(request.input, execution.inputs, execution.outputs) if request.input else _generated(graph)
    source = request.input.name if request.input else "generated inputs"
    oracles = find_oracles(request.oracles)
    terminal.stage("verify", f"{len(samples)} rows of {source} on {execution.place}")
    found = execution.infer(samples)
    reference = tensors_of_rows(stated, _rows(samples))
    whole = compare(found, samples.outputs or [reference[i] for i in stated.outputs])
    terminal.stage("outputs", str(whole))
    divergence, compared = first_divergence(
        graph, _operators(execution, graph, model, samples), tensors_of_rows(graph, _rows(samples))
    )
    terminal.stage("operators", f"{compared} agree with the reference, on {execution.probe_place}")
    computed = Computed(stated, model.data, samples, reference, found)
    findings = [finding for oracle in oracles for finding in cross_check([computed], oracle)]
    for finding in findings:
        terminal.stage("oracle", str(finding))
    if not oracles:
        terminal.stage("oracle", NO_ORACLE)
    contradicting = next((finding for finding in findings if finding.contradicts), None)
    if divergence is None and whole.passed and contradicting is None:
        terminal.verdict(True, f"{len(graph.operators)} operators and the outputs agree with the reference: {whole}")
        return
    if divergence is not None:
        told = f"first divergence from the reference at {divergence}"
    elif contradicting is not None:
        told = f"the reference is not what another computes: {contradicting}"
    else:
        expected = f"those in {source}" if samples.outputs else "the reference, though each operator by itself agrees"
        told = f"the outputs differ from {expected}: {whole}"
    terminal.verdict(False, told)
    raise CheckFailed(told)


def _operators(execution: Execution, graph: Graph, model: Model, samples: Samples) -> Tensors:
    """Every operator's output [rows, *shape], by tensor: of a run in which all are kept."""
    kept = [output for operator in graph.operators for output in operator.outputs]
    if not kept:
        return {}
    probe = replace(graph, outputs=tuple(kept), output_names=tuple(graph.tensor(i).name for i in kept))
    return dict(zip(kept, execution.probe(probe, model, samples), strict=True))


def _generated(graph: Graph) -> Samples:
    """Random rows over the whole range, then all inputs at their lowest and at their highest values."""
    tensors = [graph.tensor(i) for i in graph.inputs]
    drawn = [generate_inputs(tensors, seed) for seed in SEEDS]
    low = [np.full(t.shape, _limits(t.dtype.numpy)[0], t.dtype.numpy) for t in tensors]
    high = [np.full(t.shape, _limits(t.dtype.numpy)[1], t.dtype.numpy) for t in tensors]
    rows = [*drawn, low, high]
    return Samples(tuple(np.stack([row[i] for row in rows]) for i in range(len(tensors))), (), None)


def _limits(dtype: np.dtype[Any]) -> tuple[float, float]:
    if dtype.kind == "f":
        return -1.0, 1.0
    info = np.iinfo(dtype)
    return info.min, info.max


def _rows(samples: Samples) -> Iterator[list[NDArray[Any]]]:
    for row in range(len(samples)):
        yield [array[row] for array in samples.inputs]
