# SPDX-License-Identifier: Apache-2.0
"""Channels' requantisation in 5 to 8 bytes, from which kernels compute the words that they work with.

A packed channel is its exponent s (5 bits) above the multiplier's bits 29 to 3 (four bytes; bit 30 is always set) or
29 to 11 (three bytes), and behind them the bias as a signed integer of one to four bytes; all are little endian. The
bits of the multiplier that are left out are zero: `shortened` finds multipliers without them that give the same
outputs, which is proven at every accumulator at which an output changes.
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

ABSENT_BITS = (11, 3)
"""The multiplier's lowest bits that are not stored, with three bytes and with four."""
PARAMETERS = ("wide", "narrow", "base", "unit")
"""Parameters of a call: how far the multiplier's word and the bias' are shifted to the left, and what the rounding
constant follows from: base + (unit << s >> 2)."""
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
    weights: NDArray[np.int8] | Int64Array, bias: Int64Array, input_zero_point: int, r: Requantization
) -> Shortened | None:
    """The layer with weights [channels, taps], the filter's zero point subtracted, in the shortest form that is exact;
    None where none is."""
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
    found = (rounded(r, low, high, absent) for absent in ABSENT_BITS)
    requantization = next((one for one in found if one is not None), None)
    return None if requantization is None else Shortened(constant, bias, requantization)


def rounded(r: Requantization, low: Int64Array, high: Int64Array, absent: int) -> Requantization | None:
    """The requantisation with multipliers whose lowest `absent` bits are zero; None where some channel's outputs for
    accumulators from `low` to `high` would change by that, or where a multiplier is not normalised."""
    arrays = tuple(np.asarray(a, np.int64).tobytes() for a in (r.multipliers, r.shifts, low, high))
    found = _found(arrays, (r.zero_point, r.minimum, r.maximum), absent)
    return None if found is None else replace(r, multipliers=found)


@lru_cache(maxsize=512)  # A layer's lowerings, whole and in bands, ask for the same.
def _found(arrays: tuple[bytes, ...], ends: tuple[int, int, int], absent: int) -> Int64Array | None:
    multipliers, shifts, low, high = (np.frombuffer(data, np.int64) for data in arrays)
    normal = (multipliers >= _TOP) & (multipliers < 2 * _TOP) & (shifts <= 0)
    if not np.all(normal & (low <= high) & (low >= -(1 << 31)) & (high < 1 << 31)):
        return None
    r = Requantization(multipliers, shifts, *ends)
    first = np.minimum(steps(r, low, high), high)
    # Outputs grow with the accumulator: what is right on both sides of each change, and at the ends, is right.
    points = np.concatenate([low[None], np.maximum(first - 1, low), first, high[None]])
    right = requantize(points, r)
    nearest = (multipliers + (1 << absent >> 1)) >> absent
    found = np.full_like(multipliers, -1)
    for distance in sorted(range(-_FARTHEST, _FARTHEST + 1), key=abs):
        tried = np.clip(nearest + distance << absent, _TOP, 2 * _TOP - (1 << absent))
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
    absent = next((bits for bits in ABSENT_BITS if not np.any(multipliers & (1 << bits) - 1)), None)
    if absent is None:
        return None
    size = next((n for n in range(1, 5) if np.all(abs(2 * bias + 1) < 1 << 8 * n)), None)
    part = _wrapped(_wrapped(unit << exponents) >> 2)
    fits = np.array_equal(columns[Word.ROUNDING], _wrapped(base + part))
    fits &= Word.TIE not in columns or np.array_equal(columns[Word.TIE], 2 * part)
    if size is None or not fits:
        return None
    factors = 3 if absent > 3 else 4
    top = (exponents << 27 | multipliers - _TOP >> 3).astype("<u4").view(np.uint8).reshape(-1, 4)[:, 4 - factors :]
    low = (bias & 0xFFFFFFFF).astype("<u4").view(np.uint8).reshape(-1, 4)[:, :size]
    entries = (32 - 8 * factors, 32 - 8 * size, int(base), int(unit))
    return Packed(np.concatenate([top, low], 1), entries, tuple(int(column[0]) for column in shared))


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
    """The bytes of packed channels, with what a kernel may read behind them."""
    return Constant(rows.tobytes() + bytes(3), align=1)


def arguments(packed: Packed) -> dict[str, Argument]:
    return dict(zip(PARAMETERS, packed.entries, strict=True))


def emit(f: KernelFunction, packed: Value) -> Channel:
    """Loads a channel."""
    wide, narrow = f.integer("wide"), f.integer("narrow")
    top = f.shl(f.load(I32, packed, align=1), wide)
    behind = f.offset(packed, f.sub(4, f.lshr(wide, 3)))
    bias = f.ashr(f.shl(f.load(I32, behind, align=1), narrow), narrow)
    exponent = f.lshr(top, 27)
    part = f.ashr(f.shl(f.integer("unit"), exponent), 2)
    return Channel(
        bias,
        f.or_(f.lshr(f.shl(top, 5), 2), _TOP),
        f.add(f.integer("base"), part),
        exponent,
        f.shl(part, 1),
        f.offset(behind, f.sub(4, f.lshr(narrow, 3))),
    )
