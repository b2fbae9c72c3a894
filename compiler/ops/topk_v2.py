# SPDX-License-Identifier: Apache-2.0
"""TOPK_V2: the largest k elements of each row in descending order, of equal ones the first, and their positions.

Source: TensorFlow Lite, kernels/topk_v2.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable.along import top
from compiler.kernels.portable.loops import ELEMENTS
from compiler.ops.constraints import constant, dtypes, output_dtype_as_input, same_quantization
from compiler.ops.definition import Array, OperatorDefinition, OperatorView, no_options

TYPES = (DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.FLOAT32)


def two_inputs_and_outputs(view: OperatorView) -> str | None:
    """There are two inputs and two outputs."""
    inputs, outputs = len(view.inputs), len(view.operator.outputs)
    return None if (inputs, outputs) == (2, 2) else f"{inputs} inputs, {outputs} outputs"


def count_fits(view: OperatorView) -> str | None:
    """Input 1 is a count from 1 to the length of the last axis."""
    shape, counts = view.input().shape, view.input(1).constant.reshape(-1).tolist()
    good = len(counts) == 1 and shape and 0 not in shape and 1 <= counts[0] <= shape[-1]
    return None if good else f"{counts} of {list(shape)}"


def output_shapes(view: OperatorView) -> str | None:
    """Both outputs have the shape of input 0 with the count as last axis, the second is INT32."""
    expected = (*view.input().shape[:-1], int(view.input(1).constant.reshape(-1)[0]))
    values, positions = view.output(0), view.output(1)
    if values.shape == positions.shape == expected and positions.dtype is DType.INT32:
        return None
    return f"outputs {list(values.shape)} and {positions.dtype.name} {list(positions.shape)}"


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    x, k = inputs[0], view.output().shape[-1]
    assert x is not None
    rows = x.reshape(-1, x.shape[-1])
    keys = rows.astype(np.float64 if x.dtype == np.float32 else np.int64)
    # The place of NaN is not defined; first here, as in the kernel where its sign is clear.
    keys = np.where(np.isnan(keys), np.inf, keys) if x.dtype == np.float32 else keys
    order = np.argsort(-keys, axis=1, kind="stable")[:, :k]
    values = np.take_along_axis(rows, order, axis=1)
    return [values.reshape(view.output(0).shape), order.astype(np.int32).reshape(view.output(1).shape)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    source = view.input()
    count = source.shape[-1]
    return top(isa, source.elements // count, count, view.output().shape[-1], ELEMENTS[source.dtype])


DEFINITIONS = (
    OperatorDefinition(
        "TOPK_V2",
        no_options,
        (
            two_inputs_and_outputs,
            dtypes(0, *TYPES),
            output_dtype_as_input(),
            constant(1, "The count"),
            count_fits,
            output_shapes,
            same_quantization,
        ),
        reference,
        lower,
    ),
)
