# SPDX-License-Identifier: Apache-2.0
"""Small graphs for the operators' tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from compiler.graph import ABSENT, DType, Graph, Operator, Quantization, Tensor
from compiler.ops import operators
from compiler.ops.definition import OperatorView, rule


def tensor(
    index: int,
    shape: tuple[int, ...],
    dtype: DType = DType.INT8,
    scale: float | tuple[float, ...] | None = 1.0,
    zero_point: int = 0,
    data: Any = None,
    axis: int = 0,
) -> Tensor:
    """A tensor; `scale` None leaves it unquantised, several scales quantise it along `axis`."""
    scales = () if scale is None else scale if isinstance(scale, tuple) else (scale,)
    quantization = Quantization(scales, (zero_point,) * len(scales), axis) if scales else None
    array = None if data is None else np.asarray(data, dtype.numpy).reshape(shape)
    return Tensor(index, f"t{index}", dtype, shape, quantization, array)


def view(op: str, inputs: Sequence[Tensor | None], output: Tensor, attributes: Any = None) -> OperatorView:
    """The only operator of a graph whose inputs are the inputs that are not constant."""
    present = [t for t in inputs if t is not None]
    operator = Operator(0, op, tuple(ABSENT if t is None else t.index for t in inputs), (output.index,), attributes)
    variable = tuple(t.index for t in present if not t.is_constant)
    graph = Graph("test", {t.index: t for t in [*present, output]}, (operator,), variable, (output.index,))
    return OperatorView(graph, operator)


def evaluate(v: OperatorView, *arrays: Any) -> Any:
    """The reference's output for the non-constant inputs `arrays`, in order."""
    given = iter(arrays)
    operands = [
        None if t is None else t.data if t.is_constant else np.asarray(next(given), t.dtype.numpy).reshape(t.shape)
        for t in v.inputs
    ]
    (result,) = operators()[v.operator.op].reference(v, operands)
    return result


def refusal(v: OperatorView) -> str | None:
    """The first failed constraint: its rule, a colon, and what was got."""
    for constraint in operators()[v.operator.op].constraints:
        got = constraint(v)
        if got is not None:
            return f"{rule(constraint)}: {got}"
    return None
