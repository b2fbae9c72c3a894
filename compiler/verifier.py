# SPDX-License-Identifier: Apache-2.0
"""What every graph between two stages must satisfy; run on the model's graph and after each pass."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.graph import ABSENT, DType, Graph, Tensor

_OPAQUE = (DType.STRING, DType.RESOURCE, DType.VARIANT)


class InvalidGraph(Exception):
    """A stage left a graph that breaks the rules: a fault of the compiler, not of the model."""


def verify(graph: Graph, stage: str) -> None:
    """Raises InvalidGraph, with all faults and the stage that left them."""
    found = list(faults(graph))
    if found:
        raise InvalidGraph(f"the graph is invalid after {stage}:\n  " + "\n  ".join(found))


def faults(graph: Graph) -> Iterator[str]:
    """Every fault of a graph as a sentence: operands that exist and are produced before use, by one operator each;
    outputs that are produced; constants, shapes and quantisation that agree with each other."""
    missing = [i for i in (*graph.inputs, *graph.outputs) if i not in graph.tensors]
    for index in missing:
        yield f"the graph's inputs and outputs name tensor {index}, which does not exist"
    if len(graph.input_names) not in (0, len(graph.inputs)) or len(graph.output_names) not in (0, len(graph.outputs)):
        yield "there are not as many names as inputs and outputs"
    if len(set(graph.inputs)) != len(graph.inputs):
        yield "an input is listed twice"
    yield from _order_faults(graph)
    for index in sorted(_used(graph) & set(graph.tensors)):
        tensor = graph.tensor(index)
        if tensor.index != index:
            yield f"tensor {index} has index {tensor.index}"
        yield from _tensor_faults(tensor)


def _order_faults(graph: Graph) -> Iterator[str]:
    known = {i for i, t in graph.tensors.items() if t.is_constant or t.is_variable} | set(graph.inputs)
    produced: set[int] = set()
    for operator in graph.operators:
        where = f"operator {operator.index} {operator.op}"
        for index in operator.inputs:
            if index == ABSENT:
                continue
            if index not in graph.tensors:
                yield f"{where} reads tensor {index}, which does not exist"
            elif index not in known:
                yield f"{where} reads tensor {index} before it is produced"
        for index in operator.outputs:
            if index not in graph.tensors:
                yield f"{where} writes tensor {index}, which does not exist"
            elif index in produced:
                yield f"{where} writes tensor {index}, which another operator writes too"
            elif index in graph.inputs or graph.tensor(index).is_constant:
                yield f"{where} writes tensor {index}, which is an input or a constant"
            produced.add(index)
            known.add(index)
    for index in graph.outputs:
        if index in graph.tensors and index not in known:
            yield f"output {index} is not produced"


def _tensor_faults(tensor: Tensor) -> Iterator[str]:
    where = f"tensor {tensor.index} '{tensor.name}'"
    if tensor.dtype in _OPAQUE:
        return
    if any(size < 0 for size in tensor.shape):
        yield f"{where} has shape {list(tensor.shape)}"
    if tensor.data is not None and (tensor.data.shape != tensor.shape or tensor.data.dtype != tensor.dtype.numpy):
        held = f"{tensor.data.dtype}{list(tensor.data.shape)}"
        yield f"{where} is {tensor.dtype.value}{list(tensor.shape)} but holds {held}"
    quantization = tensor.quantization
    if quantization is None:
        return
    count = len(quantization.scales)
    if len(quantization.zero_points) != count:
        yield f"{where} has {count} scales and {len(quantization.zero_points)} zero points"
    # Some converters leave the weights' axis on the bias, which has only one.
    axis = 0 if len(tensor.shape) == 1 else quantization.axis
    if count != 1 and not (0 <= axis < len(tensor.shape) and tensor.shape[axis] == count):
        yield f"{where} has {count} scales along axis {quantization.axis} of {list(tensor.shape)}"


def _used(graph: Graph) -> set[int]:
    operands = {i for op in graph.operators for i in (*op.inputs, *op.outputs)}
    return (operands | set(graph.inputs) | set(graph.outputs)) - {ABSENT}
