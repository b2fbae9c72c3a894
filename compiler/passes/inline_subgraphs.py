# SPDX-License-Identifier: Apache-2.0
"""Subgraphs take the place of the operators that run them: loops are unrolled, branches are chosen.

Operators are computed as they are put in where their inputs are known, so that the counter of a loop is a constant in
each iteration, and with it the shapes that follow from the counter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compiler.graph import ABSENT, DType, Graph, Operator, Tensor
from compiler.ops.while_loop import MOST_OPERATORS
from compiler.passes.fold_constants import known_results

DEEPEST = 8
"""The most subgraphs inside each other: a damaged file can name one inside itself."""
INLINED = ("WHILE", "IF", "STABLEHLO_COMPOSITE")


def inline_subgraphs(graph: Graph) -> Graph:
    """The graph without the loops, branches and composites that follow their rules; others stay as they are."""
    if not any(operator.op in INLINED for operator in graph.operators):
        return graph
    return _Inliner(graph).run()


class _Unsuitable(Exception):
    """A subgraph that cannot take the place of its operator."""


class _Inliner:
    """The graph as it grows."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tensors = dict(graph.tensors)
        self.following = max(self.tensors) + 1
        self.operators: list[Operator] = []
        self.constants: dict[tuple[int, int], int] = {}
        self.count = 0
        self.depth = 0

    def run(self) -> Graph:
        named = {i: i for i in self.tensors}
        for operator in self.graph.operators:
            self._add(replace(operator, inputs=tuple(named.get(i, i) for i in operator.inputs)), named)
        outputs = tuple(named[i] for i in self.graph.outputs)
        return replace(self.graph, tensors=self.tensors, operators=tuple(self.operators), outputs=outputs)

    def _add(self, operator: Operator, named: dict[int, int]) -> None:
        """Appends an operator, its results or what takes its place; `named` learns where its outputs are."""
        before = len(self.operators)
        if operator.op in INLINED:
            try:
                results = self._inlined(operator)
                self._check_alike(results, operator.outputs)
                named.update(zip(operator.outputs, results, strict=True))
                return
            except _Unsuitable:
                del self.operators[before:]
        known = known_results(self._view(), operator)
        if known is None:
            self.operators.append(operator)
            return
        for index, value in zip(operator.outputs, known, strict=True):
            self.tensors[index] = replace(self.tensors[index], data=value)

    def _view(self) -> Graph:
        return replace(self.graph, tensors=self.tensors, operators=())

    def _inlined(self, operator: Operator) -> Sequence[int]:
        """The tensors that hold an operator's outputs, after its subgraph is put in."""
        if operator.op == "STABLEHLO_COMPOSITE":
            return self._subgraph(operator, operator.attributes.decomposition, operator.inputs)
        if operator.op == "IF":
            chosen = self._truth(operator.inputs[0]) if operator.inputs else None
            if chosen is None:
                raise _Unsuitable
            attributes = operator.attributes
            number = attributes.then if chosen else attributes.otherwise
            return self._subgraph(operator, number, operator.inputs[1:])
        carried: Sequence[int] = operator.inputs
        while True:
            (condition,) = self._subgraph(operator, operator.attributes.condition, carried) or (ABSENT,)
            truth = self._truth(condition)
            if truth is None:
                raise _Unsuitable
            if not truth:
                return carried
            results = self._subgraph(operator, operator.attributes.body, carried)
            self._check_alike(results, carried)
            carried = results

    def _truth(self, index: int) -> bool | None:
        data = self.tensors[index].data if index in self.tensors else None
        return None if data is None or data.size != 1 else bool(data.reshape(-1)[0])

    def _check_alike(self, found: Sequence[int], wanted: Sequence[int]) -> None:
        if len(found) != len(wanted):
            raise _Unsuitable
        for a, b in ((self.tensors[i], self.tensors[j]) for i, j in zip(found, wanted, strict=True)):
            if a.dtype is not b.dtype or a.quantization != b.quantization:
                raise _Unsuitable

    def _subgraph(self, operator: Operator, number: int, arguments: Sequence[int]) -> tuple[int, ...]:
        """Puts a subgraph in; returns the tensors of its outputs."""
        subgraph = self.graph.subgraphs.get(number)
        fits = subgraph is not None and len(arguments) == len(subgraph.inputs) and ABSENT not in arguments
        if subgraph is None or not fits or self.depth == DEEPEST:
            raise _Unsuitable
        self.depth += 1
        try:
            return self._put_in(operator, subgraph, number, arguments)
        finally:
            self.depth -= 1

    def _put_in(self, operator: Operator, subgraph: Graph, number: int, arguments: Sequence[int]) -> tuple[int, ...]:
        named = dict(zip(subgraph.inputs, arguments, strict=True))
        for inner, outer in named.items():
            a, b = subgraph.tensor(inner), self.tensors[outer]
            if a.dtype is not b.dtype or a.quantization != b.quantization:
                raise _Unsuitable
        for step in subgraph.operators:
            self.count += 1
            if self.count > MOST_OPERATORS:
                raise _Unsuitable
            inputs = tuple(self._named(subgraph, number, named, i) for i in step.inputs)
            moved = replace(step, index=operator.index, inputs=inputs, outputs=())
            outputs = tuple(self._made(subgraph.tensor(i), moved) for i in step.outputs)
            named.update(zip(step.outputs, outputs, strict=True))
            own = {i: i for i in outputs}
            self._add(replace(moved, outputs=outputs), own)
            named.update({inner: own[outer] for inner, outer in zip(step.outputs, outputs, strict=True)})
        return tuple(self._named(subgraph, number, named, i) for i in subgraph.outputs)

    def _named(self, subgraph: Graph, number: int, named: dict[int, int], index: int) -> int:
        if index == ABSENT or index in named:
            return named.get(index, ABSENT)
        tensor = subgraph.tensor(index)
        if not tensor.is_constant:
            raise _Unsuitable
        # One copy of a constant for all iterations.
        if (number, index) not in self.constants:
            self.constants[number, index] = self._new(tensor)
        return self.constants[number, index]

    def _made(self, tensor: Tensor, operator: Operator) -> int:
        return self._new(replace(tensor, shape=self._shape(tensor, operator)))

    def _new(self, tensor: Tensor) -> int:
        self.tensors[self.following] = replace(tensor, index=self.following)
        self.following += 1
        return self.following - 1

    def _shape(self, tensor: Tensor, operator: Operator) -> tuple[int, ...]:
        """The shape of a result. The file has none for the parts before and behind an element that a loop replaces:
        they depend on the counter."""
        inputs = [self.tensors[i] for i in operator.inputs if i != ABSENT]
        bounds = [t.data for t in inputs[1:] if t.data is not None and t.dtype in (DType.INT32, DType.INT64)]
        if operator.op == "SLICE" and len(inputs) == 3 and len(bounds) == 2:
            begin, size = (bound.reshape(-1).tolist() for bound in bounds)
            if len(begin) == len(size) == len(inputs[0].shape):
                cut = zip(begin, size, inputs[0].shape, strict=True)
                sizes = tuple(length - first if count < 0 else count for first, count, length in cut)
                if min(sizes, default=0) >= 0:
                    return sizes
        if operator.op == "CONCATENATION" and inputs and inputs[0].shape:
            axis = operator.attributes.axis % len(inputs[0].shape)
            if all(len(t.shape) == len(inputs[0].shape) for t in inputs):
                total = sum(t.shape[axis] for t in inputs)
                return (*inputs[0].shape[:axis], total, *inputs[0].shape[axis + 1 :])
        return tensor.shape
