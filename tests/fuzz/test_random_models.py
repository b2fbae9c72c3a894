# SPDX-License-Identifier: Apache-2.0
"""Random models: the reference is what TFLite Micro and LiteRT compute, and compiled code is what the reference does.

More than the fixed seeds: `python -m tests.fuzz FIRST [COUNT]`, without COUNT until it is stopped.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.frontends.tflite import read_tflite
from compiler.fusion import scheduled
from compiler.graph import Graph
from compiler.ops import operators
from compiler.settings import Settings
from tests.fuzz.chains import random_chain
from tests.fuzz.checks import contradictions, differences, overwritten, supported
from tests.fuzz.models import random_function, random_model
from tests.harness import isa_of
from tests.programs import core_boards
from toolchain.host import HostProcess
from toolchain.oracles.runtimes import find_oracles

SEEDS = range(80)
FEW = range(40)
SOME = range(200)
MANY = range(200, 3000)
DRAWN = range(1500)
NOT_DRAWN = (
    # They run, or are variables of, further subgraphs: tests/unit/compiler/passes has them.
    "ASSIGN_VARIABLE", "CALL_ONCE", "IF", "READ_VARIABLE", "STABLEHLO_COMPOSITE", "VAR_HANDLE", "WHILE",
    # Of integers that models compute shapes with, which are folded.
    "BITWISE_XOR", "BROADCAST_ARGS", "RANGE", "RANK",
    # A pass makes it; no file has it.
    "COPY",
)  # fmt: skip
ORACLES = {oracle.kernels: oracle for oracle in find_oracles()}
SHORT = Settings(arena_bytes=0)
REFERENCES = ("tflm", "litert")


def test_models_depend_on_their_seed_alone() -> None:
    first, again, other = random_model(7), random_model(7), random_model(8)
    assert first.model.data == again.model.data != other.model.data
    assert all(np.array_equal(a, b) for a, b in zip(first.inputs, again.inputs, strict=True))


def test_most_random_models_are_supported() -> None:
    assert len(supported(SEEDS)) > 0.9 * len(SEEDS)


@pytest.mark.parametrize("seeds", [SOME, pytest.param(MANY, marks=pytest.mark.sweep)], ids=["some", "many"])
@pytest.mark.parametrize("kernels", REFERENCES)
def test_reference(kernels: str, seeds: range) -> None:
    if kernels not in ORACLES:
        pytest.skip(f"{kernels} is not installed: see docs/VERIFY.md")
    told, answered = contradictions(seeds, ORACLES[kernels])
    assert answered > 0.7 * len(seeds)
    assert not told, "\n".join(told)


@pytest.mark.parametrize("seeds", [FEW, pytest.param(MANY, marks=pytest.mark.sweep)], ids=["some", "many"])
@pytest.mark.parametrize("kernels", REFERENCES)
def test_reference_of_rarer_operators(kernels: str, seeds: range) -> None:
    """TFLite Micro lacks some of them, and then refuses the model."""
    if kernels not in ORACLES:
        pytest.skip(f"{kernels} is not installed: see docs/VERIFY.md")
    told, answered = contradictions(seeds, ORACLES[kernels], random_function)
    assert answered > 0.4 * len(seeds)
    assert not told, "\n".join(told)


def test_every_operator_is_drawn() -> None:
    drawn = {operator.op for seed in DRAWN for operator in _file(seed).operators}
    assert set(operators()) - drawn == set(NOT_DRAWN)


def _file(seed: int) -> Graph:
    made = random_function(seed).model
    return read_tflite(made.data, made.name)


@pytest.mark.parametrize("core", ["host", "cortex-m4f", "rv32imac"])
def test_compiled_rarer_operators(core: str, tmp_path: Path) -> None:
    told = differences(FEW, core, tmp_path, random_function)
    assert not told, "\n".join(told)


@pytest.mark.parametrize("core", ["host", "cortex-m4f", "rv32imac"])
def test_compiled(core: str, tmp_path: Path) -> None:
    told = differences(SEEDS, core, tmp_path)
    assert not told, "\n".join(told)


def test_inputs_survive_where_the_model_says_so() -> None:
    with HostProcess() as process:
        told, kept = overwritten(SEEDS, process)
    assert not told
    assert kept > 5


def test_chains_are_fused_where_memory_is_short() -> None:
    fused = [scheduled(graph, isa_of("cortex-m4"), SHORT, 0) for _, graph in supported(SEEDS, random_chain)]
    assert len(fused) > 0.9 * len(SEEDS)
    assert sum(any(len(d.operators) > 1 for d in schedule.dispatches) for schedule in fused) > 0.4 * len(fused)


@pytest.mark.parametrize("core", ["cortex-m4f", "rv32imac"])
def test_fused_chains(core: str, tmp_path: Path) -> None:
    told = differences(SEEDS, core, tmp_path, random_chain, SHORT)
    assert not told, "\n".join(told)


@pytest.mark.sweep
@pytest.mark.parametrize("core", core_boards())
@pytest.mark.parametrize("part", range(4))
def test_fused_chains_on_every_core(core: str, part: int, tmp_path: Path) -> None:
    told = differences(range(100 * (part + 1), 100 * (part + 2)), core, tmp_path, random_chain, SHORT)
    assert not told, "\n".join(told)


@pytest.mark.sweep
@pytest.mark.parametrize("core", core_boards())
@pytest.mark.parametrize("part", range(4))
def test_compiled_on_every_core(core: str, part: int, tmp_path: Path) -> None:
    told = differences(range(150 + 200 * part, 350 + 200 * part), core, tmp_path)
    assert not told, "\n".join(told)
