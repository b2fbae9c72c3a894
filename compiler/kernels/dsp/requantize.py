# SPDX-License-Identifier: Apache-2.0
"""Requantisation with SMMLA and SSAT: TFLite's double rounding in three to eight instructions an output.

With x = acc * 2^left and right shift r, the reference's result is floor((x*m + 2^(30+r) + t) / 2^(31+r)), where t is
2^30 for x >= 0 and -2^30 for x < 0 (0 and no 2^(30+r) if r = 0). Scaling x by 2^(d+1), d >= 1, puts the product's
high word at 2^(d-31): adding `offset` = 2^(d+r-1) + 2^(d-1) + zero_point * 2^(d+r) and shifting by d + r is then exact.
`tie` = 2^d is taken off for negative x, except where the layer's clamp hides the difference. What the form needs (no
overflow in 32 bits) is proven from the bounds of the accumulators; where it cannot be, the reference's own steps run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compiler.codegen.builder import I32, I64, Function, Value
from compiler.kernels.dsp.instructions import multiply_high_add, saturate
from compiler.kernels.problems import Requantization
from compiler.numerics import requantize

Int64Array = NDArray[np.int64]
_LIMIT = 1 << 31
_MOST_SHIFT = 23  # the zero point, shifted by it, is in the offset


@dataclass(frozen=True)
class Requantizer:
    """The form of a layer's requantisation, and with it the fields of a channel's record.

    `shift` is the final right shift common to all channels (None: a field). `tie`: negative accumulators need the
    correction. `clamp`: the range is narrower than int8. `exact`: the reference's steps, for any accumulator.
    `scaled`: the accumulators come without their factor 2^(left+d+1), which is a field then.
    """

    shift: int | None = None
    tie: bool = False
    clamp: bool = False
    exact: bool = False
    scaled: bool = True

    @property
    def fields(self) -> tuple[str, ...]:
        fields = ["bias", "multiplier", "offset"]
        if self.scaled:
            fields.append("scale")
        if self.exact:
            return (*fields, "shift", "mask", "lower", "upper")
        if self.shift is None:
            fields.append("shift")
        if self.tie:
            fields.append("tie")
        if self.clamp:
            fields += ["lower", "upper"]
        return tuple(fields)

    @property
    def record_bytes(self) -> int:
        return 4 * len(self.fields)

    @property
    def name(self) -> str:
        if self.exact:
            return "exact"
        shift = "n" if self.shift is None else str(self.shift)
        return f"s{shift}{'t' * self.tie}{'c' * self.clamp}{'' if self.scaled else 'f'}"

    def load(self, f: Function, record: Value, field: str, at: int = 0) -> Value:
        """A field of the record `at` bytes behind `record`."""
        return f.load_i32(record, at + 4 * self.fields.index(field))

    def load_all(self, f: Function, record: Value, at: int = 0) -> dict[str, Value]:
        """Every field but the bias."""
        return {field: self.load(f, record, field, at) for field in self.fields if field != "bias"}

    def emit(self, f: Function, accumulator: Value, p: dict[str, Value]) -> Value:
        """The int8 result (as i32) of an accumulator."""
        x = f.shl(accumulator, p["scale"]) if self.scaled else accumulator
        if self.exact:
            return self._emit_exact(f, x, p)
        y = multiply_high_add(f, x, p["multiplier"], p["offset"])
        if self.tie:
            y = f.sub(y, f.and_(f.ashr(x, 31), p["tie"]))
        y = saturate(f, f.ashr(y, self.shift if self.shift is not None else p["shift"]))
        return self._clamp(f, y, p) if self.clamp else y

    def _emit_exact(self, f: Function, x: Value, p: dict[str, Value]) -> Value:
        product = f.add(f.mul(f.sext(x, I64), f.sext(p["multiplier"], I64)), 1 << 30)
        high = f.trunc(f.ashr(product, 31), I32)
        threshold = f.add(f.lshr(p["mask"], 1), f.lshr(high, 31))
        round_up = f.lshr(f.sub(threshold, f.and_(high, p["mask"])), 31)
        y = f.add(f.ashr(high, p["shift"]), round_up)
        y = saturate(f, f.add(saturate(f, y, 16), p["offset"]))
        return self._clamp(f, y, p)

    @staticmethod
    def _clamp(f: Function, y: Value, p: dict[str, Value]) -> Value:
        # `offset` moved the maximum to 127, where SSAT cuts; `upper` moves the minimum to -128; `lower` moves it back.
        return f.add(saturate(f, f.sub(y, p["upper"])), p["lower"])


@dataclass(frozen=True, eq=False)
class Records:
    """A layer's requantisation: its form and the int32 records [channels, fields]; the bias is as it was given.

    `scales` are the factors' exponents (left + d + 1), for kernels that fold them into weights and bias.
    """

    form: Requantizer
    words: Int64Array
    scales: Int64Array

    def take(self, channels: NDArray[np.int64]) -> Int64Array:
        return self.words[channels]

    @property
    def alike(self) -> bool:
        """Whether all channels have the same fields but for the bias, the first."""
        return bool(np.all(self.words[:, 1:] == self.words[0, 1:]))


def plan(
    r: Requantization,
    bias: Int64Array,
    low: Int64Array,
    high: Int64Array,
    preferred_shift: int,
    folding: int = 0,
    carried: int = 0,
    settles: bool = True,
) -> Records:
    """Chooses the form and computes the records.

    Of the common shifts that are exact, the one nearest to `preferred_shift` is taken: each kernel family prefers the
    one that most layers allow, so that they share a kernel. `low`/`high` bound each channel's accumulator (the true
    value, bias included); `bias` is what accumulators start from. With `folding` > 0 the factor is folded into weights
    (and bias) by the caller if every exponent is at most `folding`; `form.scaled` tells. With `carried` > 0
    accumulators come with the factor 2^carried (and `bias` too); the exact form cannot be used then. `settles`:
    channels with one output whatever the input get it by their offset alone.
    """
    one_scale = bool(np.all(r.multipliers == r.multipliers[0]) and np.all(r.shifts == r.shifts[0]))
    if one_scale:
        found = _Planner(r, bias, low, high, folding, carried, np.zeros(len(bias), np.bool_)).uniform(preferred_shift)
        if found is not None:
            return found
    results = requantize(np.stack([low, high]), r)
    constant = settles & (results[0] == results[1]) & _fits(low, high, np.maximum(r.shifts, 0))
    planner = _Planner(r, bias, low, high, folding, carried, constant)
    return (
        planner.uniform(preferred_shift)
        or planner.records(None, np.full_like(bias, max(1, carried - 1)))
        or planner.exact()
    )


@dataclass(frozen=True, eq=False)
class _Planner:
    """Tries forms on a layer. Channels marked `constant` have one output whatever the input: it is their offset."""

    requantization: Requantization
    bias: Int64Array
    low: Int64Array
    high: Int64Array
    folding: int
    carried: int
    constant: NDArray[np.bool_]

    @property
    def left(self) -> Int64Array:
        return np.maximum(self.requantization.shifts, 0)

    @property
    def right(self) -> Int64Array:
        return np.maximum(-self.requantization.shifts, 0)

    def uniform(self, preferred: int) -> Records | None:
        """The nearest common shift that is proven to work, with the factor folded if possible."""
        shifts = sorted(range(4, _MOST_SHIFT), key=lambda shift: abs(shift - preferred))
        for folded in (True, False) if self.folding else (False,):
            for shift in shifts:
                found = self.records(shift, shift - self.right, not folded)
                if found is not None:
                    return found
        return None

    def records(self, shift: int | None, degree: Int64Array, scaled: bool = True) -> Records | None:
        """The form with a common shift, or one a channel (None); None if it cannot be proven exact."""
        r, constant, low, high = self.requantization, self.constant, self.low, self.high
        scales, total = np.where(constant, 0, self.left + degree + 1), self.right + degree
        sane = constant | (
            (degree >= 1)
            & (scales >= self.carried)
            & (scales <= 31)
            & (total <= _MOST_SHIFT)
            & _fits(low, high, scales)
        )
        if not sane.all() or (not scaled and scales.max() > self.folding):
            return None
        clamp, only = self._clamps(), requantize(low, r)
        spare = 127 - r.maximum if clamp else 0
        half = np.where(self.right > 0, _power(total - 1), 0)
        offset = half + _power(degree - 1) + ((r.zero_point + spare) << np.clip(total, 0, 40))
        offset = np.where(constant, (only + spare) << (shift or 0), offset)
        multipliers = np.where(constant, 0, r.multipliers)
        if np.any((offset < -_LIMIT) | (offset >= _LIMIT)):
            return None
        for end in (low, high):
            y = ((end << scales) * multipliers >> 32) + offset
            if np.any((y < -_LIMIT + (1 << _MOST_SHIFT)) | (y >= _LIMIT)):
                return None
        tie = (self.right > 0) & ~constant & (r.minimum < r.zero_point)
        form = Requantizer(shift, bool(np.any(tie & (low < 0))), clamp, False, scaled)
        values = {
            "bias": self.bias if scaled else np.where(constant, 0, self.bias << scales),
            "multiplier": multipliers,
            "offset": offset,
            "scale": np.where(constant, 0, scales - self.carried),
            "shift": np.where(constant, 0, total),
            "tie": np.where(tie, _power(degree), 0),
            "lower": np.full_like(self.bias, r.minimum + 128),
            "upper": np.full_like(self.bias, spare + r.minimum + 128),
        }
        return Records(form, np.stack([values[name] for name in form.fields], -1), scales)

    def exact(self) -> Records:
        """The reference's own steps."""
        r, form = self.requantization, Requantizer(exact=True)
        spare = 127 - r.maximum
        values = {
            "bias": self.bias,
            "multiplier": r.multipliers,
            "offset": np.full_like(self.bias, r.zero_point + spare),
            "scale": self.left,
            "shift": self.right,
            "mask": (np.int64(1) << self.right) - 1,
            "lower": np.full_like(self.bias, r.minimum + 128),
            "upper": np.full_like(self.bias, spare + r.minimum + 128),
        }
        return Records(form, np.stack([values[name] for name in form.fields], -1), self.left)

    def _clamps(self) -> bool:
        """Whether some accumulator within its bounds meets a clamp that SSAT alone does not make."""
        r = self.requantization
        wide = Requantization(r.multipliers, r.shifts, r.zero_point, -_LIMIT, _LIMIT)
        below = r.minimum > -128 and requantize(self.low, wide) < r.minimum
        above = r.maximum < 127 and requantize(self.high, wide) > r.maximum
        return bool(np.any((below | above) & ~self.constant))


def _power(exponents: Int64Array) -> Int64Array:
    """2^exponents; 1 where an exponent is negative (those channels are constant)."""
    return np.int64(1) << np.clip(exponents, 0, 40)


def _fits(low: Int64Array, high: Int64Array, exponents: Int64Array) -> NDArray[np.bool_]:
    exponents = np.clip(exponents, 0, 31)
    return np.asarray((low << exponents >= -_LIMIT) & (high << exponents < _LIMIT))
