# SPDX-License-Identifier: Apache-2.0
"""Channels' requantisation in 5 to 8 bytes, from which kernels compute the words that they work with.

A packed channel is a little-endian integer. Its upper 32 bits are the exponent s (5 bits) above the multiplier's bits
29 to 3 (bit 30 is always set); its lower bits are the bias, signed. Where both overlap, the multiplier's lowest bits
are the bias' highest ones, and bits 2 to 0 are zero: `shortened` finds multipliers like that which give the same
outputs, proven at every accumulator at which an output changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from compiler.codegen.builder import I32, Value
from compiler.kernels.kernel import Argument, Constant, KernelFunction
from compiler.kernels.packing import Int64Array, accumulator_bounds
from compiler.kernels.problems import Requantization
from compiler.kernels.scalar.steps import steps
from compiler.numerics import requantize

PARAMETERS = ("channel_bytes", "narrow", "base", "unit")
"""Parameters of a call: a channel's bytes, how far a word of them is shifted to leave the bias, and what the rounding
constant follows from: base + (unit << s >> 2)."""
_SIZES = range(5, 9)
"""Bytes of a channel."""
_FRACTION, _ABSENT = 27, 3
"""The multiplier's bits in a channel, and those below them."""
_TOP = 1 << 30
_MOST_SHIFT = 31
_FARTHEST = 4


class Word(Enum):
    """What a word of a record is."""

    BIAS = "b"
    MULTIPLIER = "m"
    ROUNDING = "r"
    EXPONENT = "e"
    TIE = "t"
    """Twice the part of the rounding constant that depends on the exponent."""
    SHARED = "s"
    """The same for all channels: a parameter of its own."""


@dataclass(frozen=True, eq=False)
class Packed:
    """`rows` uint8 [channels, bytes]; `entries` are the values of PARAMETERS, `shared` those of SHARED words."""

    rows: NDArray[np.uint8]
    entries: tuple[int, ...]
    shared: tuple[int, ...]


@dataclass(frozen=True)
class Channel:
    """A channel's words in registers, and the address behind what is packed of it."""

    bias: Value
    multiplier: Value
    rounding: Value
    exponent: Value
    tie: Value
    end: Value


@dataclass(frozen=True, eq=False)
class Shortened:
    """A layer that computes the same with multipliers that can be packed. Weights of the channels that are `constant`
    count as zero: their bias gives their output."""

    constant: NDArray[np.bool_]
    bias: Int64Array
    requantization: Requantization


def shortened(
    weights: NDArray[np.int8] | Int64Array, bias: Int64Array, input_zero_point: int, r: Requantization, folded: int
) -> Shortened | None:
    """The layer with weights [channels, taps], the filter's zero point subtracted, in the shortest form that is exact;
    None where none is. Kernels start from the bias - `folded` * the sum of a channel's weights."""
    low, high = accumulator_bounds(weights, bias, input_zero_point)
    small = (low >= -(1 << 31)) & (high < 1 << 31)
    constant = small & (r.shifts <= 0) & (requantize(low, r) == requantize(high, r))
    if constant.all():
        return None
    if constant.any():
        typical = int(np.argmin(constant))
        multiplier, shift = int(r.multipliers[typical]), int(r.shifts[typical])
        only = requantize(low, r)
        r = replace(
            r, multipliers=np.where(constant, multiplier, r.multipliers), shifts=np.where(constant, shift, r.shifts)
        )
        middle = np.round((only - r.zero_point) * 2.0 ** (31 - shift) / multiplier).astype(np.int64)
        bias, low, high = (np.where(constant, middle, values) for values in (bias, low, high))
        if not np.array_equal(requantize(bias, r)[constant], only[constant]):
            return None
    start = bias - folded * np.where(constant, 0, weights.astype(np.int64).sum(axis=1))
    bits = _bits(start)
    if bits > 32:
        return None
    for size in _SIZES:
        shared = max(bits + 32 - 8 * size, 0)
        if shared < _FRACTION:
            ends = ((start & (1 << bits) - 1) >> bits - shared) << _ABSENT
            found = rounded(r, low, high, shared + _ABSENT, ends)
            if found is not None:
                return Shortened(constant, bias, found)
    return None


def _bits(values: Int64Array) -> int:
    """Bits that hold the signed values."""
    return int(np.maximum(values, ~values).max()).bit_length() + 1


def rounded(r: Requantization, low: Int64Array, high: Int64Array, bits: int, ends: Int64Array) -> Requantization | None:
    """The requantisation with multipliers whose lowest `bits` are `ends`; None where some channel's outputs for
    accumulators from `low` to `high` would change by that, or where a multiplier is not normalised."""
    arrays = tuple(np.asarray(a, np.int64).tobytes() for a in (r.multipliers, r.shifts, low, high, ends))
    found = _found(arrays, (r.zero_point, r.minimum, r.maximum), bits)
    return None if found is None else replace(r, multipliers=found)


@lru_cache(maxsize=512)  # A layer's lowerings, whole and in bands, ask for the same.
def _found(arrays: tuple[bytes, ...], limits: tuple[int, int, int], bits: int) -> Int64Array | None:
    multipliers, shifts, low, high, ends = (np.frombuffer(data, np.int64) for data in arrays)
    normal = (multipliers >= _TOP) & (multipliers < 2 * _TOP) & (shifts <= 0)
    if not np.all(normal & (low <= high) & (low >= -(1 << 31)) & (high < 1 << 31)):
        return None
    r = Requantization(multipliers, shifts, *limits)
    first = np.minimum(steps(r, low, high), high)
    # Outputs grow with the accumulator: what is right on both sides of each change, and at the ends, is right.
    points = np.concatenate([low[None], np.maximum(first - 1, low), first, high[None]])
    right = requantize(points, r)
    nearest = (multipliers - ends + (1 << bits >> 1)) >> bits
    found = np.full_like(multipliers, -1)
    for distance in sorted(range(-_FARTHEST, _FARTHEST + 1), key=abs):
        tried = np.clip(nearest + distance, _TOP >> bits, (2 * _TOP >> bits) - 1) << bits | ends
        same = (requantize(points, replace(r, multipliers=tried)) == right).all(axis=0)
        found = np.where((found < 0) & same, tried, found)
        if (found >= 0).all():
            return found
    return None


def pack(words: Int64Array, kinds: Sequence[Word]) -> Packed | None:
    """Records [channels, words], of which the multipliers come from `rounded`; None where the form does not hold them,
    which is found out by computing all words again."""
    columns = {kind: words[:, i] for i, kind in enumerate(kinds)}
    bias, multipliers, exponents = columns[Word.BIAS], columns[Word.MULTIPLIER], columns[Word.EXPONENT]
    base, unit = _rounding(columns)
    shared = [words[:, i] for i, kind in enumerate(kinds) if kind is Word.SHARED]
    if np.any((multipliers < _TOP) | (multipliers >= 2 * _TOP) | (exponents < 0) | (exponents > _MOST_SHIFT)):
        return None
    if any(np.any(column != column[0]) for column in shared):
        return None
    bits = _bits(bias)
    part = _wrapped(_wrapped(unit << exponents) >> 2)
    fits = np.array_equal(columns[Word.ROUNDING], _wrapped(base + part))
    fits &= Word.TIE not in columns or np.array_equal(columns[Word.TIE], 2 * part)
    if bits > 32 or np.any(multipliers & (1 << _ABSENT) - 1) or not fits:
        return None
    top = (exponents << _FRACTION | multipliers - _TOP >> _ABSENT).astype(np.uint64)
    low = (bias & (1 << bits) - 1).astype(np.uint64)
    for size in _SIZES:
        whole = top << np.uint64(8 * size - 32) | low
        if np.array_equal(whole >> np.uint64(8 * size - 32), top) and np.array_equal(
            whole & np.uint64((1 << bits) - 1), low
        ):
            rows = whole.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :size]
            return Packed(rows, (size, 32 - bits, int(base), int(unit)), tuple(int(column[0]) for column in shared))
    return None


def _rounding(columns: dict[Word, Int64Array]) -> tuple[int, int]:
    """The base and unit that the rounding constants follow from, if any."""
    rounding, exponents = columns[Word.ROUNDING], columns[Word.EXPONENT]
    i, j = int(exponents.argmin()), int(exponents.argmax())
    low, high = int(exponents[i]), int(exponents[j])
    if not 0 <= low <= high <= _MOST_SHIFT:
        return 0, 0
    if low < high:
        unit = 4 * int(rounding[j] - rounding[i]) // ((1 << high) - (1 << low))
    else:
        unit = 2 * int(columns[Word.TIE][i]) >> low if Word.TIE in columns else 0
    return int(rounding[i]) - ((unit << low) >> 2), unit


def _wrapped(values: Int64Array) -> Int64Array:
    """Modulo 2^32, signed."""
    return np.asarray(((values + (1 << 31)) & 0xFFFFFFFF) - (1 << 31), np.int64)


def constant(rows: NDArray[np.uint8]) -> Constant:
    """The bytes of packed channels."""
    return Constant(rows.tobytes(), align=1)


def arguments(packed: Packed) -> dict[str, Argument]:
    return dict(zip(PARAMETERS, packed.entries, strict=True))


def emit(f: KernelFunction, packed: Value) -> Channel:
    """Loads a channel."""
    narrow, end = f.integer("narrow"), f.offset(packed, f.integer("channel_bytes"))
    top = f.load(I32, f.offset(end, f.const(-4)), align=1)
    bias = f.ashr(f.shl(f.load(I32, packed, align=1), narrow), narrow)
    exponent = f.lshr(top, _FRACTION)
    part = f.ashr(f.shl(f.integer("unit"), exponent), 2)
    return Channel(
        bias,
        f.or_(f.lshr(f.shl(top, 32 - _FRACTION), 2), _TOP),
        f.add(f.integer("base"), part),
        exponent,
        f.shl(part, 1),
        end,
    )
