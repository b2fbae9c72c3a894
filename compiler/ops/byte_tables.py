# SPDX-License-Identifier: Apache-2.0
"""Functions of a byte as tables of all 256 inputs.

Source: TensorFlow Lite, kernels/internal/common.h (LUTPopulate).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from compiler.graph import DType, Tensor
from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable import maps
from compiler.ops.activation import INTEGER_RANGE, round_half_away
from compiler.ops.definition import Array

BYTES = (DType.INT8, DType.UINT8)
FAR = 2.0**40
"""More steps than any type has."""


def inputs_of(source: Tensor) -> Array:
    """All 256 values of an int8 or uint8 tensor, ascending, as int64."""
    lowest, highest = INTEGER_RANGE[source.dtype]
    return np.arange(lowest, highest + 1)


def through_floats(source: Tensor, output: Tensor, function: Callable[[np.float32], np.float32]) -> Array:
    """Outputs [256] for ascending inputs: dequantised, through `function`, quantised; float32 throughout."""
    f32 = np.float32
    inverse = f32(1) / f32(output.scale)
    with np.errstate(all="ignore"):
        reals = [function(f32(source.scale) * f32(q - source.zero_point)) for q in inputs_of(source)]
        # What is infinite saturates like what is merely large.
        scaled = np.clip([float(f32(real) * inverse) for real in reals], -FAR, FAR)
        steps = [round_half_away(step) for step in scaled.tolist()]
    limits = INTEGER_RANGE[output.dtype]
    return np.asarray(np.clip(np.array(steps) + output.zero_point, *limits), output.dtype.numpy)


def apply(table: Array, x: Array) -> Array:
    """The outputs of int8 or uint8 inputs, from a table in ascending order of the input."""
    return np.asarray(table[x.astype(np.int64) - np.iinfo(x.dtype).min])


def lower(isa: Isa, source: Tensor, table: Array) -> Lowered:
    """The kernel call for a table in ascending order of the input."""
    by_bit_pattern = np.roll(table, 128) if source.dtype is DType.INT8 else table
    return maps.byte_map(isa, source.elements, by_bit_pattern)
