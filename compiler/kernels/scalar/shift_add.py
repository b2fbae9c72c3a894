# SPDX-License-Identifier: Apache-2.0
"""Arithmetic by constants without multiplication: signed digits of weights, and requantisation by shifts and additions
that is proven exact."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compiler.codegen.builder import Function, Value
from compiler.kernels.packing import Int64Array
from compiler.kernels.problems import Requantization
from compiler.kernels.scalar.core import clamped
from compiler.kernels.scalar.steps import steps
from compiler.numerics import requantize

_MOST_DIGITS = 14
_ROOM = 30
"""Bits that a shifted accumulator and its multiple may take, sign aside."""


def signed_digits(value: int) -> tuple[tuple[int, int], ...]:
    """The non-adjacent form: the fewest (exponent, sign) whose sum of sign * 2**exponent is `value`, the least
    exponent first."""
    digits, exponent = [], 0
    while value:
        if value & 1:
            digit = 2 - (value & 3)
            digits.append((exponent, digit))
            value -= digit
        value >>= 1
        exponent += 1
    return tuple(digits)


def emit_sum(f: Function, weights: Sequence[int], inputs: Sequence[Value]) -> Value:
    """The sum of weights times inputs, bit by bit from the highest (Horner's scheme)."""
    digits = [dict(signed_digits(weight)) for weight in weights]
    total: Value | None = None
    for exponent in range(max((max(d) for d in digits if d), default=0), -1, -1):
        total = f.shl(total, 1) if total is not None else None
        for each, value in zip(digits, inputs, strict=True):
            if exponent in each:
                if each[exponent] > 0:
                    total = value if total is None else f.add(total, value)
                else:
                    total = f.sub(0 if total is None else total, value)
    return f.const(0) if total is None else total


def sum_steps(weights: Sequence[int]) -> int:
    """The instructions of `emit_sum`."""
    digits = [signed_digits(weight) for weight in weights]
    return sum(map(len, digits)) + max((d[-1][0] for d in digits if d), default=0)


@dataclass(frozen=True)
class ShiftRescale:
    """clamp((sum of sign * ((x << left) >> shift) + addend - (nudge if x < 0 else 0)) >> right) of an accumulator x,
    with (shift, sign) in `digits`. What is clamped is relative to `minimum` + 1."""

    left: int
    digits: tuple[tuple[int, int], ...]
    addend: int
    nudge: int
    right: int
    minimum: int
    maximum: int

    @property
    def steps(self) -> int:
        """The instructions of `emit`."""
        return 2 * len(self.digits) + 10 + 3 * bool(self.nudge)

    def emit(self, f: Function, accumulator: Value) -> Value:
        """The output, as an i32."""
        x = f.shl(accumulator, self.left) if self.left else accumulator
        total: Value = f.const(self.addend)
        for shift, sign in self.digits:
            part = f.ashr(x, shift) if shift else x
            total = f.add(total, part) if sign > 0 else f.sub(total, part)
        if self.nudge:
            total = f.sub(total, f.and_(f.ashr(x, 31), self.nudge))
        value = f.ashr(total, self.right)
        return clamped(f, value, self.maximum - self.minimum - 1, self.maximum)


def rescale(r: Requantization, channel: int, low: int, high: int) -> ShiftRescale | None:
    """What equals a channel's requantisation for all accumulators from `low` to `high`; None where none was found.

    Each shift rounds by less than 1, so that the sum grows with the accumulator if an accumulator is worth more than
    twice the digits. Then it is enough to try those where the output changes.
    """
    if low < -(1 << 29) or high >= 1 << 29:
        return None
    one = slice(channel, channel + 1)
    alone = Requantization(r.multipliers[one], r.shifts[one], r.zero_point, r.minimum, r.maximum)
    x = _changes(alone, low, high)
    exact = requantize(x[:, None], alone)[:, 0]
    if exact[0] == exact[-1]:
        return ShiftRescale(0, (), int(exact[0]) - r.minimum - 1, 0, 0, r.minimum, r.maximum)
    ratio = int(r.multipliers[channel]) * 2.0 ** (int(r.shifts[channel]) - 31)
    reach = max(abs(low), abs(high))
    left = _ROOM - reach.bit_length()
    right = _ROOM - math.ceil(math.log2(ratio * reach + abs(r.zero_point) + 260))
    if right < 1:
        return None
    scaled, total, rest = x << left, np.zeros_like(x), ratio * 2.0 ** (right - left)
    digits: list[tuple[int, int]] = []
    while rest and len(digits) < _MOST_DIGITS:
        # The power of two that is nearest to what is left.
        shift, sign = -math.floor(math.log2(abs(rest) * 4 / 3)), 1 if rest > 0 else -1
        if not 0 <= shift < 32:
            break
        digits.append((shift, sign))
        rest -= sign * 2.0**-shift
        total += sign * (scaled >> shift)
        if sum(sign * 2.0 ** (left - shift) for shift, sign in digits) <= 2 * len(digits):
            continue
        for nudged in (False, True):
            constants = _constants(x, total, exact - r.minimum - 1, right, r, nudged)
            if constants is not None and _fits(total, *constants):
                return ShiftRescale(left, tuple(digits), *constants, right, r.minimum, r.maximum)
    return None


def _changes(r: Requantization, low: int, high: int) -> Int64Array:
    """The accumulators on both sides of each change of the output of the one channel, the ends, and those around 0."""
    reached = steps(r, np.array([low]), np.array([high]))
    x = np.concatenate([reached.ravel(), reached.ravel() - 1, np.array([low, -1, 0, high])])
    return np.unique(x[(x >= low) & (x <= high)])


def _constants(
    x: Int64Array, total: Int64Array, wanted: Int64Array, right: int, r: Requantization, nudged: bool
) -> tuple[int, int] | None:
    """The addend and nudge by which totals become the wanted values, which count from `minimum` + 1."""
    far = 1 << 40
    lower = np.where(wanted == -1, -far, (wanted << right) - total)
    upper = np.where(wanted == r.maximum - r.minimum - 1, far, (wanted + 1 << right) - 1 - total)
    middles = []
    for side in (x >= 0, x < 0) if nudged else (x == x,):
        least, most = int(lower[side].max(initial=-far)), int(upper[side].min(initial=far))
        if least > most:
            return None
        middles.append((max(least, -far), min(most, far)))
    centre = (1 << right >> 1) + (r.zero_point - r.minimum - 1 << right)
    chosen = [min(max(centre, least), most) for least, most in middles]
    return (chosen[0], chosen[0] - chosen[-1]) if chosen[0] >= chosen[-1] else None


def _fits(total: Int64Array, addend: int, nudge: int) -> bool:
    """Whether no step exceeds 32 bits: parts are at most as large as the shifted accumulator."""
    reach = int(np.abs(total).max())
    return reach + abs(addend) + abs(nudge) < 1 << 31 and abs(addend) < 1 << 31
