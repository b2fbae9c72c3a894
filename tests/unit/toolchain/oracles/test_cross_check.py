# SPDX-License-Identifier: Apache-2.0
"""Tensors against other runtimes: which operator is named, and what counts as a contradiction."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.errors import UserError
from compiler.frontends.tflite import read_tflite
from compiler.graph import DType
from tests.tflite_files import FileOperator, FileTensor, fully_connected, tflite_file
from toolchain.oracles import cross_check
from toolchain.oracles.allowances import EXPECTED, Allowance
from toolchain.oracles.cross_check import Finding, first_divergence
from toolchain.oracles.outputs import file_outputs, tensor_count, with_outputs
from toolchain.oracles.runtimes import Oracle, Question, ask, find_oracles
from toolchain.rows import Samples

TWO_LAYERS = tflite_file(
    [FileTensor(name, (1, 4), scale=0.5) for name in ("x", "hidden", "y")],
    [FileOperator("ABS", (0,), (1,)), FileOperator("NEG", (1,), (2,))],
    (0,),
    (2,),
)
SAMPLES = Samples((np.array([[[1, -2, 3, -4]]], np.int8),), (), None)
HIDDEN, OUTPUT = np.array([[[1, 2, 3, 4]]], np.int8), np.array([[[-1, -2, -3, -4]]], np.int8)


def check(kernels: str, answer: list[Any] | str, monkeypatch: pytest.MonkeyPatch) -> Finding:
    """What is found where an oracle answers so for the tensors 1 and 2."""

    def fake(oracle: Oracle, questions: Sequence[Question]) -> list[Any]:
        (question,) = questions
        assert file_outputs(question.model) == [1, 2]
        return [answer]

    monkeypatch.setattr(cross_check, "ask", fake)
    graph = read_tflite(TWO_LAYERS, "two.tflite")
    oracle = Oracle(Path("python"), kernels, kernels)
    computed = cross_check.Computed(graph, TWO_LAYERS, SAMPLES, {1: HIDDEN, 2: OUTPUT}, [OUTPUT])
    (found,) = cross_check.cross_check([computed], oracle)
    return found


def test_agreement(monkeypatch: pytest.MonkeyPatch) -> None:
    found = check("tflm", [HIDDEN, OUTPUT], monkeypatch)
    assert not found.contradicts
    assert str(found) == "tflm: all 2 operators agree"


def test_the_first_operator_that_differs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = check("tflm", [HIDDEN + np.int8(2), OUTPUT], monkeypatch)
    assert found.contradicts
    assert str(found) == (
        "tflm: first differs at operator #0 ABS 'hidden': 1 rows, 4 of 4 elements differ, by up to 2 steps; "
        "the outputs agree"
    )


def test_the_desktop_default_never_contradicts(monkeypatch: pytest.MonkeyPatch) -> None:
    found = check("xnnpack", [HIDDEN, OUTPUT + np.int8(1)], monkeypatch)
    assert not found.contradicts
    assert "operator #1 NEG 'y'" in str(found) and "outputs: 1 rows, 4 of 4 elements differ" in str(found)


def test_known_differences_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = (Allowance(DType.INT16, None, "other"), Allowance(DType.INT8, 1, "it is another contract"))
    monkeypatch.setitem(EXPECTED, ("litert", "ABS"), allowed)
    found = check("litert", [HIDDEN + np.int8(1), OUTPUT], monkeypatch)
    assert not found.contradicts and "(it is another contract)" in str(found)
    assert check("litert", [HIDDEN + np.int8(2), OUTPUT], monkeypatch).contradicts


def test_an_allowance_is_for_its_type_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXPECTED, ("litert", "ABS"), (Allowance(DType.INT16, None, "other"),))
    assert check("litert", [HIDDEN + np.int8(1), OUTPUT], monkeypatch).contradicts


def test_an_allowance_is_for_its_operators_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    differing = Allowance(DType.INT8, None, "other", lambda view: view.operator.index == 1)
    monkeypatch.setitem(EXPECTED, ("litert", "ABS"), (differing,))
    assert check("litert", [HIDDEN + np.int8(1), OUTPUT], monkeypatch).contradicts


def test_a_refusal_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(check("tflm", "no kernel for ABS", monkeypatch)) == "tflm cannot run it: no kernel for ABS"


def test_tensors_that_the_file_lacks_are_passed_over() -> None:
    graph = read_tflite(TWO_LAYERS, "two.tflite")
    assert first_divergence(graph, {1: HIDDEN, 2: OUTPUT}, {2: OUTPUT}) == (None, 1)


def test_other_outputs_leave_the_file_as_it_is() -> None:
    model = fully_connected(3, 2)
    changed = with_outputs(model, [2, 0])
    assert file_outputs(model) == [2] and file_outputs(changed) == [2, 0]
    assert tensor_count(changed) == tensor_count(model) == 3
    before, after = read_tflite(model, "m"), read_tflite(changed, "m")
    assert np.array_equal(before.tensor(1).constant, after.tensor(1).constant)


def test_a_python_that_is_none() -> None:
    with pytest.raises(UserError, match="cannot be asked for oracles"):
        find_oracles((Path("/nowhere/python"),))


@pytest.mark.parametrize("oracle", find_oracles(), ids=lambda oracle: oracle.kernels)
def test_installed_oracles_answer_each_question(oracle: Oracle) -> None:
    question = Question(with_outputs(TWO_LAYERS, [1, 2]), SAMPLES.inputs)
    broken = Question(b"no model", SAMPLES.inputs)
    first, refused = ask(oracle, [question, broken])
    assert isinstance(refused, str) and refused
    if oracle.kernels != "tflm":
        assert isinstance(first, list) and np.array_equal(first[0], HIDDEN[0][None])
