# SPDX-License-Identifier: Apache-2.0
"""ADD_N: the sum of any number of tensors of one shape. int32 wraps.

Source: TensorFlow Lite Micro, kernels/add_n.cc; for int32 TensorFlow Lite, kernels/add_n.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from compiler.codegen.builder import Function, Value
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable.formula import Formula, Operand, elementwise
from compiler.kernels.portable.loops import ELEMENTS
from compiler.kernels.portable.raw_sums import PARAMETERS, rescaled
from compiler.ops import bands
from compiler.ops.broadcast import operand
from compiler.ops.constraints import FLOAT, Q8, dtypes, inputs_between, output_dtype_as_input
from compiler.ops.definition import Array, OperatorDefinition, OperatorView, no_options
from compiler.ops.raw_sums import RawSums, raw_sum_constraints

MOST = 32
"""Inputs: each takes a pointer in the innermost loop."""


def inputs_alike(view: OperatorView) -> str | None:
    """All inputs are there. They have the shape of the output, one type, and where they are INT8 one scale and zero
    point."""
    first, shape = view.input(), view.output().shape
    for position, tensor in enumerate(view.inputs):
        if tensor is None:
            return f"input {position} is absent"
        if tensor.shape != shape or tensor.dtype is not first.dtype:
            return f"{tensor.dtype.name} {list(tensor.shape)} beside {first.dtype.name} for {list(shape)}"
        if first.dtype is Q8 and tensor.quantization != first.quantization:
            return f"'{tensor.name}' is quantised otherwise than '{first.name}'"
    return None


def not_empty(view: OperatorView) -> str | None:
    """The output is not empty."""
    return None if view.output().elements else str(list(view.output().shape))


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    arrays = [x for x in inputs if x is not None]
    if view.input().dtype is not Q8:
        with np.errstate(all="ignore"):
            return [reduce(np.add, arrays)]
    total = sum(x.astype(np.int64) for x in arrays) - (len(arrays) + 1) * view.input().zero_point
    return [RawSums(view.input(), view.output()).rescaled(np.asarray(total)).astype(np.int8)]


def _plain(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    return reduce(f.add, operands)


def _float(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    return reduce(f.fadd, operands)


def _rescaled(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    start, *numbers = parameters
    return rescaled(f, isa, f.add(start, reduce(f.add, operands)), *numbers)


FORMULAS = {
    DType.INT32: Formula("add_n", _plain),
    FLOAT: Formula("add_n", _float),
    Q8: Formula("add_n", _rescaled, ("start", *PARAMETERS), lanes=2),
}


def lower(view: OperatorView, isa: Isa) -> Lowered:
    source, output, count = view.input(), view.output(), len(view.inputs)
    element = ELEMENTS[source.dtype]
    inputs = [Operand(operand(view, i), element, output.shape) for i in range(count)]
    numbers: tuple[int, ...] = ()
    if source.dtype is Q8:
        numbers = (-(count + 1) * source.zero_point, *RawSums(source, output).numbers)
    return elementwise(isa, FORMULAS[source.dtype], inputs, element, output.shape, numbers)


DEFINITIONS = (
    OperatorDefinition(
        "ADD_N",
        no_options,
        (
            inputs_between(2, MOST),
            dtypes(0, Q8, DType.INT32, FLOAT),
            output_dtype_as_input(),
            inputs_alike,
            not_empty,
            *raw_sum_constraints(lambda view: len(view.inputs)),
        ),
        reference,
        lower,
        bands=bands.elementwise,
    ),
)
