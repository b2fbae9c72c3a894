# SPDX-License-Identifier: Apache-2.0
"""Computed tensors against other runtimes: the first operator that differs, and whether the contract allows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from compiler.graph import DType, Graph, Tensor
from compiler.ops.definition import OperatorView
from toolchain.comparison import Difference, compare
from toolchain.oracles.allowances import EXPECTED, OTHER_SHAPES
from toolchain.oracles.outputs import file_outputs, has_open_sizes, tensor_count, with_outputs
from toolchain.oracles.runtimes import Answer, Oracle, Question, ask
from toolchain.report.contents import short_name
from toolchain.rows import Samples

Tensors = Mapping[int, NDArray[Any]]
Arrays = Sequence[NDArray[Any]]

NUMBERS = (DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64, DType.FLOAT32, DType.BOOL)


@dataclass(frozen=True)
class Divergence:
    """The first operator whose output differs, over all rows."""

    view: OperatorView
    tensor: Tensor
    difference: Difference

    def __str__(self) -> str:
        operator = self.view.operator
        return f"operator #{operator.index} {operator.op} '{short_name(self.tensor.name)}': {self.difference}"


@dataclass(frozen=True)
class Finding:
    """What an oracle says. `refusal` where it cannot run the model; `compared` operators were compared up to the first
    that differs; `outputs` is the difference of the model's outputs. `open_sizes`: sizes in its loops vary."""

    oracle: Oracle
    refusal: str | None
    compared: int = 0
    first: Divergence | None = None
    outputs: Difference | None = None
    open_sizes: bool = False

    @property
    def differs(self) -> bool:
        """Whether an operator differs, or the outputs do: those of an operator that left no tensor of the file."""
        return self.first is not None or (self.outputs is not None and not self.outputs.passed)

    @property
    def reason(self) -> str | None:
        """Why the difference is no fault, if so."""
        if self.differs and self.open_sizes and self.oracle.kernels == "tflm":
            return OTHER_SHAPES
        if self.first is None:
            return None
        for allowance in EXPECTED.get((self.oracle.kernels, self.first.view.operator.op), ()):
            within = allowance.most is None or self.first.difference.steps <= allowance.most
            if allowance.dtype is self.first.tensor.dtype and within and allowance.when(self.first.view):
                return allowance.why
        return None

    @property
    def contradicts(self) -> bool:
        """Whether a reference kernel computes something else and none of the known reasons explains it."""
        return self.differs and self.oracle.kernels != "xnnpack" and self.reason is None

    def __str__(self) -> str:
        if self.refusal is not None or self.outputs is None:
            return f"{self.oracle.title} cannot run it: {self.refusal}"
        if not self.differs:
            return f"{self.oracle.title}: all {self.compared} operators agree"
        where = f"first differs at {self.first}" if self.first else "differs"
        why = f" ({self.reason})" if self.reason else ""
        outputs = "the outputs agree" if self.outputs.exact else f"outputs: {self.outputs}"
        return f"{self.oracle.title}: {where}{why}; {outputs}"


def first_divergence(graph: Graph, computed: Tensors, expected: Tensors) -> tuple[Divergence | None, int]:
    """The first operator with an output that differs, and how many operators' outputs were compared before. Tensors are
    [rows, *shape]; those that `expected` lacks are passed over."""
    compared = 0
    for operator in graph.operators:
        known = [i for i in operator.outputs if i in expected]
        for tensor in known:
            difference = compare([computed[tensor]], [expected[tensor].reshape(computed[tensor].shape)])
            if not difference.passed:
                return Divergence(OperatorView(graph, operator), graph.tensor(tensor), difference), compared
        compared += bool(known)
    return None, compared


@dataclass(frozen=True)
class Computed:
    """What we computed: `graph` is the model as its file states it, `tensors` its operators' outputs [rows, *shape] by
    tensor, `outputs` those of the model."""

    graph: Graph
    model: bytes
    samples: Samples
    tensors: Tensors
    outputs: Arrays

    @property
    def shown(self) -> list[int]:
        """The operators' outputs that an oracle is asked for, and the model's."""
        return sorted({*_shown(self.graph, self.model), *file_outputs(self.model)})

    def question(self) -> Question:
        return Question(with_outputs(self.model, self.shown), self.samples.inputs)

    def finding(self, oracle: Oracle, answer: Answer) -> Finding:
        """What an oracle's answer says."""
        if isinstance(answer, str):
            return Finding(oracle, answer)
        values = dict(zip(self.shown, answer, strict=True))
        expected = {i: a for i, a in values.items() if i in self.tensors and a.size == self.tensors[i].size}
        first, compared = first_divergence(self.graph, self.tensors, expected)
        last = [values[i].reshape(a.shape) for i, a in zip(file_outputs(self.model), self.outputs, strict=True)]
        return Finding(oracle, None, compared, first, compare(self.outputs, last), has_open_sizes(self.model))


def cross_check(computed: Sequence[Computed], oracle: Oracle) -> list[Finding]:
    """Asks an oracle for every operator's output of each model."""
    answers = ask(oracle, [c.question() for c in computed])
    return [c.finding(oracle, answer) for c, answer in zip(computed, answers, strict=True)]


def _shown(graph: Graph, model: bytes) -> Iterator[int]:
    """The operators' outputs that are tensors of the file and hold numbers."""
    count = tensor_count(model)
    for operator in graph.operators:
        for index in operator.outputs:
            tensor = graph.tensor(index)
            if index < count and tensor.dtype in NUMBERS and tensor.elements:
                yield index
