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
from compiler.kernels.instructions_dsp import multiply_high_add, saturate
from compiler.kernels.problems import Requantization
from compiler.numerics import requantize

Int64Array = NDArray[np.int64]
UNIFORM_SHIFTS = (14, 16, 12, 18, 10, 20, 8, 6)
"""Preferred first: few distinct shifts let layers share kernels."""
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


def plan(r: Requantization, bias: Int64Array, low: Int64Array, high: Int64Array, folding: int = 0) -> Records:
    """Chooses the form and computes the records.

    `low`/`high` bound each channel's accumulator (bias included, zero point folded in or not: the true value). `bias`
    is what accumulators start from. With `folding` > 0 the factor is folded into weights (and bias) by the caller if
    every exponent is at most `folding`; `form.scaled` tells.
    """
    ends = np.stack([low, high])
    results = requantize(ends, r)
    constant = (results[0] == results[1]) & _fits(low, high, np.maximum(r.shifts, 0))
    left, right = np.maximum(r.shifts, 0), np.maximum(-r.shifts, 0)
    tie = (right > 0) & (low < 0) & ~constant & (r.minimum < r.zero_point)
    clamp = bool(np.any(~constant)) and _narrow(r, ends)
    spare = 127 - r.maximum if clamp else 0

    def records(shift: int | None, degree: Int64Array, scaled: bool = True) -> Records | None:
        scales = np.where(constant, 0, left + degree + 1)
        total = right + degree
        if not (np.all(constant | ((degree >= 1) & (scales <= 31))) and np.all(constant | (total <= _MOST_SHIFT))):
            return None
        if not np.all(constant | _fits(low, high, scales)):
            return None
        if not scaled and scales.max(initial=0) > folding:
            return None
        half = np.where(right > 0, np.int64(1) << np.clip(total - 1, 0, 40), 0)
        offset = half + (np.int64(1) << np.clip(degree - 1, 0, 40)) + ((r.zero_point + spare) << np.clip(total, 0, 40))
        if shift is not None:
            offset = np.where(constant, (results[0] + spare) << shift, offset)
        else:
            offset, total = np.where(constant, results[0] + spare, offset), np.where(constant, 0, total)
        multipliers = np.where(constant, 0, r.multipliers)
        if not np.all((offset >= -_LIMIT) & (offset < _LIMIT)):
            return None
        for end in ends:
            y = ((end << scales) * multipliers >> 32) + offset
            if not np.all((y >= -_LIMIT + (1 << _MOST_SHIFT)) & (y < _LIMIT)):
                return None
        form = Requantizer(shift, bool(tie.any()), clamp, False, scaled)
        values = {
            "bias": bias if scaled else np.where(constant, 0, bias << scales),
            "multiplier": multipliers,
            "offset": offset,
            "scale": scales,
            "shift": total,
            "tie": np.where(tie, np.int64(1) << np.clip(degree, 0, 40), 0),
            "lower": np.full_like(bias, r.minimum + 128),
            "upper": np.full_like(bias, spare + r.minimum + 128),
        }
        return Records(form, np.stack([values[name] for name in form.fields], -1), scales)

    for folded in (True, False) if folding else (False,):
        for shift in UNIFORM_SHIFTS:
            found = records(shift, shift - right, not folded)
            if found is not None:
                return found
    return records(None, np.ones_like(right)) or _exact(r, bias, left, right)


def _exact(r: Requantization, bias: Int64Array, left: Int64Array, right: Int64Array) -> Records:
    form = Requantizer(exact=True)
    spare = 127 - r.maximum
    values = {
        "bias": bias,
        "multiplier": r.multipliers,
        "offset": np.full_like(bias, r.zero_point + spare),
        "scale": left,
        "shift": right,
        "mask": (np.int64(1) << right) - 1,
        "lower": np.full_like(bias, r.minimum + 128),
        "upper": np.full_like(bias, spare + r.minimum + 128),
    }
    return Records(form, np.stack([values[name] for name in form.fields], -1), left)


def _fits(low: Int64Array, high: Int64Array, exponents: Int64Array) -> NDArray[np.bool_]:
    exponents = np.clip(exponents, 0, 31)
    return np.asarray((low << exponents >= -_LIMIT) & (high << exponents < _LIMIT))


def _narrow(r: Requantization, ends: Int64Array) -> bool:
    """Whether some accumulator within its bounds meets a clamp that SSAT alone does not make."""
    wide = requantize(ends, Requantization(r.multipliers, r.shifts, r.zero_point, -_LIMIT, _LIMIT))
    below = r.minimum > -128 and bool(np.any(wide[0] < r.minimum))
    above = r.maximum < 127 and bool(np.any(wide[1] > r.maximum))
    return below or above
