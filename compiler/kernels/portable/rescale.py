# SPDX-License-Identifier: Apache-2.0
"""How the int16x8 layers rescale: the form that the weights prove exact, and its table.

The reference has two forms: double rounding where the bias is int32 (or the layer is an elementwise one), else one
rounding of a 64-bit product. Where the weights bound the accumulator to 31 bits, the second needs only a high
multiplication.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from compiler.codegen.builder import I32, I64, Function, Value
from compiler.codegen.requantize import (
    Multiplier,
    Multiplier64,
    clamp,
    multiply_by_quantized_multiplier,
    multiply_by_quantized_multiplier_64,
    narrow_shifts,
    reduce_multiplier,
)
from compiler.isa import Isa
from compiler.kernels.problems import Requantization


class Form(Enum):
    """The accumulator's width and the arithmetic of a rescale."""

    DOUBLE = "d"
    """i32, double rounding, any value."""
    DOUBLE_SMALL = "ds"
    """i32, double rounding; no accumulator reaches 2**29 after its left shift."""
    NARROW = "n"
    """i32, the 64-bit form by one high multiplication."""
    LONG = "l"
    """i64, the 64-bit form."""

    @property
    def accumulator(self) -> object:
        return I64 if self is Form.LONG else I32


CHANNEL_BYTES = 16


@dataclass(frozen=True, eq=False)
class Rescale:
    """A layer's form and the table of its channels: `form`, then 16 bytes a channel."""

    form: Form
    table: bytes

    def part(self, first: int, end: int) -> bytes:
        """The entries of channels first..end."""
        return self.table[first * CHANNEL_BYTES : end * CHANNEL_BYTES]


def rescale_of(r: Requantization, bias: NDArray[np.int64], products: NDArray[np.int64], wide: bool) -> Rescale:
    """The cheapest exact form. `products` [channels] bounds the magnitude of each channel's sum of products."""
    bound = np.abs(bias) + products
    pairs = [(int(m), int(s)) for m, s in zip(r.multipliers, r.shifts, strict=True)]
    if not wide:
        small = all(int(b) << max(s, 0) < 1 << 29 for b, (_, s) in zip(bound, pairs, strict=True))
        return Rescale(Form.DOUBLE_SMALL if small else Form.DOUBLE, b"".join(
            struct.pack("<4i", int(b), m, max(s, 0), max(-s, 0)) for b, (m, s) in zip(bias, pairs, strict=True)
        ))  # fmt: skip
    narrow = [narrow_shifts(m, s) for m, s in pairs]
    if all(_fits_narrow(int(b), n) for b, n in zip(bound, narrow, strict=True)):
        return Rescale(Form.NARROW, b"".join(struct.pack("<4i", int(b), *n) for b, n in zip(bias, narrow, strict=True)))
    return Rescale(Form.LONG, b"".join(
        struct.pack("<q2i", int(b), *reduce_multiplier(m, s)) for b, (m, s) in zip(bias, pairs, strict=True)
    ))  # fmt: skip


def _fits_narrow(bound: int, narrow: tuple[int, int, int]) -> bool:
    multiplier, left, right = narrow
    shifted = bound << left
    return shifted < 1 << 31 and right <= 31 and (shifted * multiplier >> 32) + (1 << right) < 1 << 30


def load_bias(f: Function, form: Form, entry: Value) -> Value:
    """The start of a channel's accumulator."""
    return f.load(I64, entry, align=4) if form is Form.LONG else f.load_i32(entry)


def emit_rescale(
    f: Function, isa: Isa, form: Form, total: Value, entry: Value, minimum: Value, maximum: Value
) -> Value:
    """The clamped i32 result of an accumulator; zero points are 0 in int16x8 layers."""
    if form is Form.LONG:
        by64 = Multiplier64(f.load_i32(entry, 8), f.load_i32(entry, 12))
        return clamp(f, isa, multiply_by_quantized_multiplier_64(f, total, by64), minimum, maximum)
    multiplier, left, right = (f.load_i32(entry, 4 * i) for i in range(1, 4))
    if form is Form.NARROW:
        high = isa.multiply_high(f, f.shl(total, left), multiplier)
        half = f.lshr(f.shl(f.const(1), right), 1)
        return clamp(f, isa, f.ashr(f.add(high, half), right), minimum, maximum)
    by = Multiplier(multiplier, left, right)
    value = multiply_by_quantized_multiplier(f, isa, total, by, small=form is Form.DOUBLE_SMALL)
    if form is Form.DOUBLE:
        value = saturate_30(f, value)
    return clamp(f, isa, value, minimum, maximum)


def saturate_30(f: Function, value: Value) -> Value:
    """An i32 saturated to 31 bits, so that a zero point can be added and a clamp cannot overflow."""
    overflows = f.ashr(f.xor(value, f.shl(value, 1)), 31)
    saturated = f.xor(f.ashr(value, 31), 0x3FFFFFFF)
    return f.xor(value, f.and_(f.xor(value, saturated), overflows))
