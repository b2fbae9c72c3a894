# SPDX-License-Identifier: Apache-2.0
"""CAST: elements as another type, without regard to scales and zero points.

Floats are cut towards zero and saturated, and integers are cut to their low bits. NaN is 0; for the types that
TensorFlow Lite Micro lacks (UINT8, UINT16, INT64) it is the largest number.
Source: TensorFlow Lite Micro, kernels/cast.cc, and TensorFlow Lite, kernels/cast.cc, measured where C leaves the result
undefined.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable import casts
from compiler.ops.constraints import inputs_between, same_shape
from compiler.ops.definition import Array, OperatorDefinition, OperatorView, no_options
from compiler.ops.moving import moderate_size

TYPES = (
    DType.FLOAT32,
    DType.INT8,
    DType.UINT8,
    DType.INT16,
    DType.UINT16,
    DType.INT32,
    DType.UINT32,
    DType.INT64,
    DType.BOOL,
)


def castable(view: OperatorView) -> str | None:
    """Input and output are FLOAT32, INT8, UINT8, INT16, UINT16, INT32, UINT32, INT64 or BOOL."""
    source, output = view.input().dtype, view.output().dtype
    good = source in TYPES and output in TYPES and view.output().elements > 0
    return None if good else f"input {source.name}, output {output.name} {list(view.output().shape)}"


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    x, target = inputs[0], view.output().dtype
    assert x is not None
    if x.dtype.kind != "f" or target in (DType.BOOL, DType.FLOAT32):
        return [x.astype(target.numpy)]
    limits = np.iinfo(target.numpy)
    low, high = int(limits.min), int(limits.max)
    whole = np.trunc(x.astype(np.float64))
    # In double the highest number may round up to the power of two above: both saturate.
    above, below = whole >= float(high), whole <= float(low)
    between = np.where(above | below | np.isnan(x), 0, whole).astype(np.int64).astype(target.numpy)
    saturated = np.where(above, high, np.where(below, low, between))
    nan = high if target in casts.NAN_IS_LARGEST else 0
    return [np.where(np.isnan(x), nan, saturated).astype(target.numpy)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    output = view.output()
    return casts.cast(isa, output.elements, view.input().dtype, output.dtype)


DEFINITIONS = (
    OperatorDefinition(
        "CAST", no_options, (inputs_between(1, 1), castable, same_shape, moderate_size), reference, lower
    ),
)
