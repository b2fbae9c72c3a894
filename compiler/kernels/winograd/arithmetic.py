# SPDX-License-Identifier: Apache-2.0
"""Exact integer Winograd convolution F(m x m, 3x3): transforms of inputs, weights and products.

A tile of m x m outputs is A^T [(G g G^T) * (B^T d B)] A, where d is the tile's (m+2) x (m+2) inputs and * multiplies
element by element, summed over input channels. With G's rows scaled to integers all steps are integers, and output
(r, c) is factor * 2^(e[r] + e[c]) times the true accumulator. A product with the factor's inverse modulo 2^32, shifted
left, gives 2^s times the accumulator for any s of at least 2 * max(e): exact where the accumulator, so shifted,
fits 32 bits. Everything before is modulo 2^32, so what overflows on the way does no harm.

Inputs are int8 + 128. Two channels share a word as low + high * 2^16, which additions and left shifts respect as long
as the word is taken as a whole; `offset` added to the low value at the end keeps it positive, so that the upper half is
the high value itself. The weights' side takes the offset back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compiler.codegen.builder import Function, Value

Int64Array = NDArray[np.int64]
Values = list[Value]
Operation = Callable[[Value, Value], Value]


@dataclass(frozen=True, eq=False)
class Transform:
    """One F(m x m, 3x3). `weights` is G int64 [m + 2, 3]; `exponents` are e, falling by one down to the last.

    `bias` times an output channel's bias at position (1, 1) of the products is the bias in every output. `forward` is
    B^T of a column (its last argument is added to the low value of each result), `backward` A^T, `expand` G, made of
    the given addition and subtraction alone.
    """

    tile: int
    weights: Int64Array
    exponents: tuple[int, ...]
    factor: int
    offset: int
    bias: int
    forward: Callable[[Function, Sequence[Value], int], Values]
    backward: Callable[[Function, Sequence[Value]], Values]
    expand: Callable[[Operation, Operation, Sequence[Value]], Values]

    @property
    def size(self) -> int:
        """Inputs, and products, along an edge of a tile."""
        return self.tile + 2

    @property
    def positions(self) -> int:
        return self.size * self.size

    @property
    def bias_position(self) -> int:
        return self.size + 1

    @property
    def carried(self) -> int:
        """The least s."""
        return 2 * max(self.exponents)

    @property
    def inverse(self) -> int:
        """The factor's inverse modulo 2^32."""
        return pow(self.factor, -1, 1 << 32)

    def transform_weights(self, weights: NDArray[np.int8]) -> Int64Array:
        """Weights [outputs, 3, 3, inputs] to int64 [outputs, positions, inputs]; they fit int16."""
        u = np.einsum("ai,oijc,bj->oabc", self.weights, weights.astype(np.int64), self.weights)
        return np.asarray(u.reshape(len(weights), self.positions, -1), np.int64)


def _forward_2(f: Function, d: Sequence[Value], offset: int) -> Values:
    moved = [f.add(v, offset) if offset else v for v in (d[0], d[2], d[1])]
    return [f.sub(moved[0], d[2]), f.add(moved[2], d[2]), f.sub(moved[1], d[1]), f.sub(moved[2], d[3])]


def _backward_2(f: Function, m: Sequence[Value]) -> Values:
    return [f.add(f.add(m[1], m[2]), m[0]), f.sub(f.sub(m[1], m[2]), m[3])]


def _forward_4(f: Function, d: Sequence[Value], offset: int) -> Values:
    sum12, sum34 = f.add(d[1], d[2]), f.add(d[3], d[4])
    difference12, difference43 = f.sub(d[1], d[2]), f.sub(d[4], d[3])
    outer, inner = f.sub(d[4], d[2]), f.sub(d[3], d[1])
    first, last = f.sub(d[0], d[2]), f.sub(d[5], d[3])
    if offset:
        sum34, difference43, outer, last = (f.add(v, offset) for v in (sum34, difference43, outer, last))
    doubled = f.shl(inner, 1)
    return [
        f.add(outer, f.shl(first, 2)),
        f.sub(sum34, f.shl(sum12, 2)),
        f.add(difference43, f.shl(difference12, 2)),
        f.add(outer, doubled),
        f.sub(outer, doubled),
        f.sub(last, f.shl(inner, 2)),
    ]


def _backward_4(f: Function, m: Sequence[Value]) -> Values:
    # G's rows 1 and 2 have the opposite sign of the usual ones.
    sum12, sum34 = f.add(m[1], m[2]), f.add(m[3], m[4])
    difference12, difference34 = f.sub(m[1], m[2]), f.sub(m[3], m[4])
    return [
        f.add(f.sub(sum34, f.shl(sum12, 2)), m[0]),
        f.sub(difference34, f.shl(difference12, 1)),
        f.sub(sum34, sum12),
        f.add(f.sub(f.shl(difference34, 1), difference12), m[5]),
    ]


def _expand_2(add: Operation, sub: Operation, g: Sequence[Value]) -> Values:
    ends = add(g[0], g[2])
    return [add(g[0], g[0]), add(ends, g[1]), sub(ends, g[1]), add(g[2], g[2])]


def _expand_4(add: Operation, sub: Operation, g: Sequence[Value]) -> Values:
    ends, first2, middle2, last2 = add(g[0], g[2]), add(g[0], g[0]), add(g[1], g[1]), add(g[2], g[2])
    far, first3, last3 = add(g[0], add(last2, last2)), add(first2, g[0]), add(last2, g[2])
    return [
        add(first3, first3),
        add(ends, g[1]),
        sub(ends, g[1]),
        add(far, middle2),
        sub(far, middle2),
        add(last3, last3),
    ]


F2 = Transform(
    tile=2,
    weights=np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], np.int64),
    exponents=(1, 1),
    factor=1,
    offset=1024,
    bias=4,
    forward=_forward_2,
    backward=_backward_2,
    expand=_expand_2,
)
F4 = Transform(
    tile=4,
    weights=np.array([[6, 0, 0], [1, 1, 1], [1, -1, 1], [1, 2, 4], [1, -2, 4], [0, 0, 6]], np.int64),
    exponents=(3, 2, 1, 1),
    factor=9,
    offset=12800,
    bias=36,
    forward=_forward_4,
    backward=_backward_4,
    expand=_expand_4,
)
TRANSFORMS = {2: F2, 4: F4}
