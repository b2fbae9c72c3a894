# SPDX-License-Identifier: Apache-2.0
"""Quantised functions of one input through LiteRT's lookup tables: 256 entries for bytes, 513 interpolated for int16.

Source: TensorFlow Lite, kernels/internal/common.h (LUTPopulate, LUTLookup).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from compiler.codegen.builder import Function, Value
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import Argument
from compiler.kernels.portable.formula import Formula
from compiler.ops import byte_tables
from compiler.ops.activation import round_half_away
from compiler.ops.definition import Array, OperatorView
from compiler.ops.elementwise import Kind, bound, byte_table, constant_table

Real = Callable[[OperatorView, float], float]
"""The real function, of a float32; its result is rounded to float32."""
STEPS = 512
f32 = np.float32


def looked_up(function: Real, *dtypes: DType) -> dict[DType, Kind]:
    """The kinds of a function for quantised types."""
    kinds = {}
    for dtype in dtypes:
        kinds[dtype] = _interpolated(function) if dtype is DType.INT16 else _bytes(function)
    return kinds


def _bytes(function: Real) -> Kind:
    def values(view: OperatorView, inputs: Sequence[Array]) -> Array:
        source = view.input()
        table = byte_tables.through_floats(source, view.output(), lambda x: f32(function(view, float(x))))
        return np.asarray(table[inputs[0].astype(np.int64) - byte_tables.inputs_of(source)[0]])

    return byte_table(values)


def _rounded(value: float) -> int:
    """Rounded half away from zero; what is not finite is beyond every type."""
    return round_half_away(min(max(value, -(2.0**40)), 2.0**40))


def _interpolated(function: Real) -> Kind:
    def bind(view: OperatorView) -> tuple[Formula, Sequence[Argument]]:
        return Formula("interpolate", _look_up, tables=("table",)), (constant_table(int16_table(view, function)),)

    def values(view: OperatorView, inputs: Sequence[Array]) -> Array:
        index, table = inputs[0].astype(np.int64), int16_table(view, function)
        base = table[256 + (index >> 7)].astype(np.int64)
        slope = (table[257 + (index >> 7)] - base).astype(np.int16)
        return np.asarray(base + ((slope.astype(np.int64) * (index & 127) + 64) >> 7)).astype(np.int16)

    return bound(values, bind)


def int16_table(view: OperatorView, function: Real) -> Array:
    """513 samples over the input's whole range, each moved by half of what interpolation misses behind it."""
    source, output = view.input(), view.output()
    low, high = (f32(source.scale) * f32(q - source.zero_point) for q in (-32768, 32767))
    out_low, out_high = (f32(output.scale) * f32(q - output.zero_point) for q in (-32768, 32767))
    step = f32((high - low) / f32(STEPS))
    scaling = f32(65536) / f32(out_high - out_low)

    def at(x: np.float32) -> np.float32:
        return f32(f32(function(view, float(x))) * scaling)

    def nearest(x: np.float32) -> np.float32:
        return f32(_rounded(float(x)))

    table = []
    for i in range(STEPS):
        start = f32(low + f32(i) * step)
        value, middle, following = at(start), at(f32(start + step / f32(2))), at(f32(low + f32(i + 1) * step))
        interpolated = nearest(f32((following + nearest(value)) / f32(2)))
        table.append(nearest(value) - nearest(f32((interpolated - nearest(middle)) / f32(2))))
    table.append(nearest(at(high)))
    return np.clip(table, -32768, 32767).astype(np.int16)


def _look_up(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    (value,), (table,) = operands, parameters
    entry = f.offset(table, f.shl(f.add(f.ashr(value, 7), 256), 1))
    base = f.load_s16(entry)
    # The reference keeps the slope in 16 bits.
    slope = f.ashr(f.shl(f.sub(f.load_s16(entry, 2), base), 16), 16)
    return f.add(base, f.ashr(f.add(f.mul(slope, f.and_(value, 127)), 64), 7))
