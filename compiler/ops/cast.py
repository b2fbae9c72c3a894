# SPDX-License-Identifier: Apache-2.0
"""CAST: elements as another type, without regard to scales and zero points.

Floats are cut towards zero and integers to their low bits. What C leaves undefined is settled: a float beyond 32 bits
(beyond 64 for INT64 and UINT32) saturates to them first, and NaN is 0.
Source: TensorFlow Lite, kernels/cast.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.codegen.builder import I64
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels import casts
from compiler.kernels.kernel import Lowered
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
    wide = np.iinfo(np.int64 if casts.wide_type(target) is I64 else np.int32)
    with np.errstate(invalid="ignore"):
        whole = np.nan_to_num(np.trunc(x.astype(np.float64)), nan=0.0)
        inside = np.where((whole > wide.min) & (whole < wide.max), whole, 0).astype(np.int64)
    saturated = np.where(whole >= wide.max, wide.max, np.where(whole <= wide.min, wide.min, inside))
    return [saturated.astype(target.numpy)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    output = view.output()
    return casts.cast(isa, output.elements, view.input().dtype, output.dtype)


DEFINITIONS = (
    OperatorDefinition(
        "CAST", no_options, (inputs_between(1, 1), castable, same_shape, moderate_size), reference, lower
    ),
)
