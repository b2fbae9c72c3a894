# SPDX-License-Identifier: Apache-2.0
"""Weights of `PatchMatrix` in flash: their forms, and when a form is exact.

JOINED: two int8 weights, a and b, of the activations x1 and x0 share an int16, g = 256 b - a, whose low byte is -a.
With v = x0 + 128 and u = -(256 x1 + v) - 1, which the gathering computes once for all channels,
256 (b v + a x1) = g v + (-a) u - a: four weights take one SXTB16 and two SMLAD, where plain bytes take two of each.
The accumulator is 256 times the layer's, modulo 2^32; that it fits is proven from the layer's bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.kernels.dsp.requantize import Records, plan
from compiler.kernels.packing import accumulator_bounds, folded_bias, pad_depth
from compiler.kernels.problems import Requantization

Int64Array = NDArray[np.int64]
_BUFFER_ORDER = (0, 2, 1, 3)
"""Which byte of a weight word meets the n-th int16 of a quad in the buffer (SXTB16 pairs bytes 0, 2 and 1, 3)."""
_JOINED_BITS = 8
_WORDS_FOLDING = 8  # 2^8 times an int8 fits int16
WORDS_LIMIT = 4096
"""Weights of up to so many bytes are WORDS in the first place: a tenth fewer instructions for as many bytes again."""


class WeightForm(Enum):
    """BYTES: int8 in the order of the input. WORDS: int16 in the buffer's order, the requantisation's factor folded
    in where it fits. JOINED: pairs of int8 as above."""

    BYTES = "b"
    WORDS = "w"
    JOINED = "j"

    @property
    def quad_bytes(self) -> int:
        return 8 if self is WeightForm.WORDS else 4

    def quad_instructions(self, channels: int, pixels: int) -> float:
        """Instructions that a quad takes in a block of `channels` by `pixels`: weights, activations, SMLADs."""
        weights = {WeightForm.BYTES: 2.5, WeightForm.WORDS: 1, WeightForm.JOINED: 1.5}[self]
        return channels * weights + pixels + 2 * channels * pixels


@dataclass(frozen=True, eq=False)
class Matrix:
    """Weights [channels, runs, run] and what belongs to them; a run is read from consecutive bytes."""

    weights: NDArray[Any]
    bias: Int64Array
    input_zero_point: int
    requantization: Requantization

    @property
    def channels(self) -> int:
        return int(self.weights.shape[0])

    @property
    def runs(self) -> int:
        return int(self.weights.shape[1])

    @property
    def run(self) -> int:
        return int(self.weights.shape[2])


@dataclass(frozen=True, eq=False)
class PackedWeights:
    """`data` is [channels, quads, values of a quad]; the records' bias is what accumulators start from."""

    form: WeightForm
    data: NDArray[Any]
    records: Records

    def padded(self, quads: int) -> NDArray[Any]:
        """The data with zeros behind it up to a number of quads."""
        return np.pad(self.data, ((0, 0), (0, quads - self.data.shape[1]), (0, 0)))


def pack(matrix: Matrix, words: bool, joins: bool = True, settles: bool = True) -> PackedWeights:
    """The weights as WORDS, or in the cheapest of the other forms that is exact, which is BYTES unless it `joins`.
    `settles`: as for `plan`."""
    flat = matrix.weights.reshape(matrix.channels, -1)
    low, high = accumulator_bounds(flat, matrix.bias, matrix.input_zero_point)
    bias = folded_bias(flat, matrix.bias, matrix.input_zero_point)
    quads = _quads(matrix)
    if words:
        records = plan(matrix.requantization, bias, low, high, 12, folding=_WORDS_FOLDING, settles=settles)
        values = quads.astype(np.int64)[:, :, list(_BUFFER_ORDER)]
        values = values if records.form.scaled else values << records.scales[:, None, None]
        return PackedWeights(WeightForm.WORDS, values.astype("<i2"), records)
    return (joins and _joined(matrix, quads, bias, low, high, settles)) or PackedWeights(
        WeightForm.BYTES, quads.astype("i1"), plan(matrix.requantization, bias, low, high, 15, settles=settles)
    )


def _joined(
    matrix: Matrix, quads: NDArray[Any], bias: Int64Array, low: Int64Array, high: Int64Array, settles: bool
) -> PackedWeights | None:
    upper, lower = quads[:, :, 0::2].astype(np.int64), quads[:, :, 1::2].astype(np.int64)
    pairs = 256 * upper - lower
    if matrix.run % 4 or lower.min() < -127 or pairs.min() < -(1 << 15) or pairs.max() >= 1 << 15:
        return None
    start = (bias - 128 * upper.sum((1, 2)) << _JOINED_BITS) - lower.sum((1, 2))
    records = plan(matrix.requantization, start, low, high, 17, carried=_JOINED_BITS, settles=settles)
    return None if records.form.exact else PackedWeights(WeightForm.JOINED, pairs.astype("<i2"), records)


def _quads(matrix: Matrix) -> NDArray[Any]:
    """Weights [channels, quads, 4] as bytes: the whole quads of all runs, then the tails in the buffer's order."""
    whole, tail = divmod(matrix.run, 4)
    body = matrix.weights[:, :, : 4 * whole].reshape(matrix.channels, -1, 4)
    if not tail:
        return body
    ends = pad_depth(matrix.weights[:, :, 4 * whole :].reshape(matrix.channels, -1), 4).reshape(matrix.channels, -1, 4)
    return np.concatenate([body, ends[:, :, list(_BUFFER_ORDER)]], 1)
