# SPDX-License-Identifier: Apache-2.0
"""Numbers that kernel families prepare at compile time: folded biases and bounds of accumulators."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]


def folded_bias(weights: NDArray[np.int8], bias: Int64Array, input_zero_point: int) -> Int64Array:
    """bias - zero point * sum of weights: weights [channels, taps], bias [channels] -> int64 [channels]."""
    return np.asarray(bias - input_zero_point * weights.astype(np.int64).sum(axis=1), np.int64)


def accumulator_bounds(
    weights: NDArray[np.int8] | Int64Array, bias: Int64Array, input_zero_point: int
) -> tuple[Int64Array, Int64Array]:
    """The least and the greatest accumulator of each channel over all int8 inputs; weights [channels, taps] (the
    filter's zero point subtracted), bias [channels] as in the model."""
    wide = weights.astype(np.int64)
    positive, negative = np.maximum(wide, 0).sum(axis=1), np.minimum(wide, 0).sum(axis=1)
    least, greatest = -128 - input_zero_point, 127 - input_zero_point
    return bias + positive * least + negative * greatest, bias + positive * greatest + negative * least


def pad_depth(weights: NDArray[np.int8], multiple: int) -> NDArray[np.int8]:
    """Weights [..., depth] with zeros behind each row up to a multiple of `multiple`."""
    lacking = -weights.shape[-1] % multiple
    return np.pad(weights, [(0, 0)] * (weights.ndim - 1) + [(0, lacking)])


def overlap_depth(weights: NDArray[np.int8], chunk: int) -> NDArray[np.int8]:
    """Weights [..., depth] for reading the activations in chunks that end with the depth: the last chunk overlaps the
    one before, with zeros where it does. Shorter depths get zeros behind."""
    depth = weights.shape[-1]
    if depth < chunk:
        return pad_depth(weights, chunk)
    rest = depth % chunk
    overlap = np.zeros((*weights.shape[:-1], -rest % chunk), np.int8)
    return np.concatenate([weights[..., : depth - rest], overlap, weights[..., depth - rest :]], axis=-1)
