# SPDX-License-Identifier: Apache-2.0
"""What ARG_MAX and ARG_MIN have in common.

Source: TensorFlow Lite, kernels/internal/reference/arg_min_max.h.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable.along import arg, lines
from compiler.kernels.portable.loops import ELEMENTS
from compiler.ops.axis import axis_of, one_axis
from compiler.ops.constraints import constant, dtypes, inputs_between
from compiler.ops.definition import Array, OperatorDefinition, OperatorView, no_options

TYPES = (DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.BOOL, DType.FLOAT32)


def index_output(view: OperatorView) -> str | None:
    """The output is INT32 or INT64."""
    dtype = view.output().dtype
    return None if dtype in (DType.INT32, DType.INT64) else f"the output is {dtype.name}"


def without_axis(view: OperatorView) -> str | None:
    """The output has the shape of input 0 without the axis."""
    shape, axis = view.input().shape, axis_of(view)
    expected, got = shape[:axis] + shape[axis + 1 :], view.output().shape
    return None if got == expected else f"input {list(shape)}, axis {axis}, output {list(got)}"


def positions(name: str, largest: bool) -> OperatorDefinition:
    """The definition of ARG_MAX or ARG_MIN."""

    def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
        x, output = inputs[0], view.output()
        assert x is not None
        rows = np.moveaxis(x, axis_of(view), 0)
        best, found = rows[0], np.zeros(rows.shape[1:], np.int64)
        for position, row in enumerate(rows):
            # Strictly, so that a NaN is neither found nor passed over; NumPy's functions find it.
            better = row > best if largest else row < best
            best, found = np.where(better, row, best), np.where(better, position, found)
        return [found.astype(output.dtype.numpy).reshape(output.shape)]

    def lower(view: OperatorView, isa: Isa) -> Lowered:
        source = view.input()
        along = lines(source.shape, axis_of(view))
        return arg(isa, along, ELEMENTS[source.dtype], ELEMENTS[view.output().dtype], largest)

    constraints = (
        inputs_between(2, 2),
        dtypes(0, *TYPES),
        constant(1, "The axis"),
        one_axis,
        index_output,
        without_axis,
    )
    return OperatorDefinition(name, no_options, constraints, reference, lower)
