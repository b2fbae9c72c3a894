# SPDX-License-Identifier: Apache-2.0
"""Many operators in one program: what each computes on an emulated core is what its reference computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from boards.loader import load_board
from compiler.compile import compile_graph
from compiler.graph import ABSENT, Graph, Tensor
from compiler.model import Model
from compiler.ops.definition import Array, OperatorView
from compiler.reference import outputs_of
from compiler.support import unsupported
from tests.harness import core_boards, run
from toolchain.target import target_of


def check_together(core: str, views: Mapping[str, OperatorView], inputs: Sequence[Array], folder: Path) -> None:
    """Runs all views once. `inputs` are the arrays of their run-time inputs, in order; by position in `views`."""
    tensors: dict[int, Tensor] = {}
    operators, sources, results = [], [], []
    for number, view in enumerate(views.values()):
        fault = unsupported(view.graph, view.operator)
        assert fault is None, fault
        first = 100 * number
        for tensor in view.graph.tensors.values():
            tensors[first + tensor.index] = replace(tensor, index=first + tensor.index)
        shifted = tuple(i if i == ABSENT else i + first for i in view.operator.inputs)
        outputs = tuple(i + first for i in view.operator.outputs)
        operators.append(replace(view.operator, index=number, inputs=shifted, outputs=outputs))
        sources += [i + first for i in view.graph.inputs]
        results += list(outputs)
    graph = Graph("together", tensors, tuple(operators), tuple(sources), tuple(results))
    model = compile_graph(graph, Model("together.tflite", b""), target_of(load_board(core_boards()[core]).core))
    (found,) = run(model, [inputs], folder)
    names = [name for name, view in views.items() for _ in view.operator.outputs]
    for name, got, want in zip(names, found, outputs_of(graph, list(inputs)), strict=True):
        np.testing.assert_array_equal(got, want, name)
