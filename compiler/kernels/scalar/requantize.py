# SPDX-License-Identifier: Apache-2.0
"""Requantisation on scalar cores: which exact form a layer allows, its table, and the instructions.

Double rounding is floor((x*m + 2**(30+r) +- 2**30) / 2**(31+r)) for a right shift r >= 1, with + for x >= 0 and - for
x < 0. With h = floor(4*x*m / 2**32), which needs |x| < 2**29, that is (h + 2**r +- 1) >> (r + 1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from compiler.codegen.builder import I16, I32, Function, Value
from compiler.kernels.kernel import Argument, KernelFunction
from compiler.kernels.packing import Int64Array
from compiler.kernels.problems import Requantization
from compiler.kernels.scalar.clamps import CLAMP_FIELDS, REACH, Clamp, clamp_entries, clamp_of, clamp_origin, emit_clamp
from compiler.kernels.scalar.core import Multiplier, ScalarCore
from compiler.kernels.scalar.two_factors import two_factors
from compiler.numerics import requantize

WORDS = 4
"""Table words of a channel: bias, multiplier, rounding constant, shift (fast); bias, high and low factor as
halfwords, addend, shift (factors); bias, multiplier, shifts (general)."""
REQUANTIZE_FIELDS = (*CLAMP_FIELDS, "factor_bits", "zero_offset")
"""The call's parameters; the last ones are for the forms with factors and for the general one."""


class Rounding(Enum):
    FAST = "f"
    """Negative ties cannot be seen: they are below the clamp."""
    TIES = "t"
    """As FAST, with the correction for negative accumulators."""
    FACTORS = "p"
    """As FAST, by two low products in place of a high one."""
    GENERAL = "g"
    """Any shift in either direction and any accumulator, modulo 2**32 as in the reference."""

    @property
    def is_one_product(self) -> bool:
        return self in (Rounding.FAST, Rounding.TIES)


@dataclass(frozen=True)
class Form:
    """The compile-time facts of a requantisation."""

    rounding: Rounding
    clamp: Clamp

    @property
    def tag(self) -> str:
        return self.rounding.value + self.clamp.value


@dataclass(frozen=True, eq=False)
class ChannelTable:
    """`words` int64 [channels, WORDS]; `entries` are the values of REQUANTIZE_FIELDS. `shared`: channels differ in
    their bias only, and are not to be packed."""

    form: Form
    words: Int64Array
    entries: dict[str, Argument]
    packs: bool = False

    @property
    def shared(self) -> bool:
        return not self.packs and _alike(self.words)


def channel_table(
    core: ScalarCore,
    r: Requantization,
    bias: Int64Array,
    bounds: tuple[Int64Array, Int64Array],
    lookup: bool = False,
    packs: bool = False,
) -> ChannelTable:
    """The table for accumulators within `bounds` (least and greatest, without overflow), started at `bias`. `lookup`:
    clamped by a table, within whose reach they are. `packs`: in a form for `compiler.kernels.packed_records`, if one
    product is exact."""
    low, high = bounds
    right = np.maximum(-r.shifts, 0)
    clamp = clamp_of(r, lookup)
    origin = clamp_origin(core, clamp, r.minimum)
    lowest, highest = requantize(low, r), requantize(high, r)
    monotone = (r.shifts <= 0) & (low >= -(1 << 31)) & (high < 1 << 31)
    constant = (lowest == highest) & monotone & (not packs)
    settled = np.zeros_like(constant)
    offset = ((2 * (r.zero_point - origin) + 1) << right) + 1
    greatest = np.maximum(abs(low), abs(high))
    fits = (greatest < 1 << 29) & (right >= 1)
    fits &= ((greatest * r.multipliers) >> 30) + abs(offset) < (1 << 31) - 4
    words = np.stack([bias, r.multipliers, offset, right + 1], axis=1)
    if not (fits.all() and _alike(words)):
        # What never changes needs no multiplication, nor a form that could overflow.
        settled = constant
        fixed = np.stack([bias, np.zeros_like(bias), lowest - origin << 1, np.ones_like(bias)], axis=1)
        words = np.where(settled[:, None], fixed, words)
        fits |= settled
    if fits.all():
        # The correction of ties leaves settled channels alone: their product is 0, hence not negative.
        ties = ~settled & (low < 0) & (r.minimum < r.zero_point)
        rounding = Rounding.TIES if ties.any() else Rounding.FAST
    else:
        rounding = Rounding.GENERAL
        words = np.stack([bias, r.multipliers, right, np.maximum(r.shifts, 0)], axis=1)
    bits = 0
    if rounding is Rounding.FAST and not packs and core.multiplier is Multiplier.LOW:
        # A table is entered at its middle then: its start is too far away for the addend.
        found = two_factors(r, bounds, r.minimum, REACH) if lookup else two_factors(r, bounds, origin, 1 << 30)
        if found is not None:
            bits, (upper, lower, addend, shift) = found[0], found[1].T
            rounding, words = Rounding.FACTORS, np.stack([bias, upper | lower << 16, addend, shift], axis=1)
    entries = clamp_entries(clamp, r) | {"factor_bits": bits, "zero_offset": r.zero_point - origin}
    return ChannelTable(Form(rounding, clamp), words, entries, packs)


def _alike(words: Int64Array) -> bool:
    """All channels have the same entries but for the bias."""
    return bool((words[:, 1:] == words[0, 1:]).all())


@dataclass(frozen=True)
class ChannelValues:
    """A channel's table entries in registers; `low_factor` is the second one of two."""

    multiplier: Value
    rounding: Value
    shift: Value
    low_factor: Value | None = None


def load_channel(f: Function, form: Form, pointer: Value, offset: int = 0) -> ChannelValues:
    """The entries behind the bias, which is at `offset`."""
    multiplier, rounding, shift = (f.load(I32, pointer, offset + 4 * i) for i in range(1, WORDS))
    if form.rounding is not Rounding.FACTORS:
        return ChannelValues(multiplier, rounding, shift)
    upper, lower = (f.zext(f.load(I16, pointer, offset + i)) for i in (4, 6))
    return ChannelValues(upper, rounding, shift, lower)


@dataclass(frozen=True)
class Requantizer:
    """Appends the requantisation of accumulators."""

    core: ScalarCore
    form: Form

    def emitter(self, f: KernelFunction) -> Callable[[Value, ChannelValues], Value]:
        """What turns an accumulator of a channel into its output. Loads the call's parameters."""
        clamp = emit_clamp(f, self.core, self.form.clamp, REACH if self.form.rounding is Rounding.FACTORS else 0)
        if self.form.rounding is Rounding.GENERAL:
            offset = f.integer("zero_offset")
            return lambda accumulator, channel: clamp(f.add(self._general(f, accumulator, channel), offset))
        if self.form.rounding is Rounding.FACTORS:
            bits = f.integer("factor_bits")
            return lambda accumulator, channel: clamp(self._multiplied(f, accumulator, channel, bits))
        return lambda accumulator, channel: clamp(self._rounded(f, accumulator, channel))

    def _multiplied(self, f: Function, accumulator: Value, channel: ChannelValues, bits: Value) -> Value:
        rest = f.ashr(f.mul(accumulator, channel.low_factor), bits)
        total = f.add(f.mul(accumulator, channel.multiplier), rest)
        return f.ashr(f.add(total, channel.rounding), channel.shift)

    def _rounded(self, f: Function, accumulator: Value, channel: ChannelValues) -> Value:
        high = self.core.multiply_high(f, f.shl(accumulator, 2), channel.multiplier)
        if self.form.rounding is Rounding.TIES:
            high = f.add(high, f.shl(f.ashr(high, 31), 1))
        return f.ashr(f.add(high, channel.rounding), channel.shift)

    def _general(self, f: Function, accumulator: Value, channel: ChannelValues) -> Value:
        """The reference's two roundings one after the other; the result is clamped to 30 bits so that zero points
        can be added."""
        right, left = channel.rounding, channel.shift
        value = f.shl(accumulator, left)
        high = self.core.multiply_high(f, value, channel.multiplier)
        low = self.core.multiply(f, value, channel.multiplier)
        doubled = f.add(f.shl(high, 1), f.lshr(f.add(f.lshr(low, 30), 1), 1))
        mask = f.sub(f.shl(f.const(1), right), 1)
        threshold = f.add(f.lshr(mask, 1), f.lshr(doubled, 31))
        rounded = f.add(f.ashr(doubled, right), f.lshr(f.sub(threshold, f.and_(doubled, mask)), 31))
        overflows = f.ashr(f.xor(rounded, f.shl(rounded, 1)), 31)
        saturated = f.xor(f.ashr(rounded, 31), 0x3FFFFFFF)
        return f.xor(rounded, f.and_(f.xor(rounded, saturated), overflows))
