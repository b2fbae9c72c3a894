# SPDX-License-Identifier: Apache-2.0
"""Inputs of the self-test, drawn alike here and by the firmware (firmware_templates/selftest.c.j2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from compiler.graph import DType

FLOAT_TOLERANCE = 1e-5


class HasForm(Protocol):
    """An input as a tensor or as a port."""

    @property
    def dtype(self) -> DType: ...

    @property
    def shape(self) -> tuple[int, ...]: ...


def xorshift32(seed: int) -> Iterator[int]:
    """Marsaglia's 32-bit xorshift generator (Xorshift RNGs, 2003; 13, 17, 5). ValueError for a seed outside
    1 .. 2^32 - 1."""
    if not 0 < seed < 2**32:
        raise ValueError(f"seed {seed} is not in 1 .. 2^32 - 1")
    state = seed
    while True:
        state ^= (state << 13) & 0xFFFFFFFF
        state ^= state >> 17
        state ^= (state << 5) & 0xFFFFFFFF
        yield state


def generate_inputs(ports: Sequence[HasForm], seed: int) -> list[NDArray[Any]]:
    """One array an input, of the port's shape and dtype; the generator runs on from port to port.

    An element takes the low bits of the next state: 8 for int8 and uint8, 16 for int16 and uint16, 8 as int8 / 64
    for float32, and one for all other types, which are often indices. Vectors of a stateful model are consecutive
    steps from the reset state. ValueError for a seed outside 1 .. 2^32 - 1.
    """
    states = xorshift32(seed)
    inputs: list[NDArray[Any]] = []
    for port in ports:
        count = prod(port.shape)
        drawn = np.fromiter((next(states) for _ in range(count)), dtype=np.uint32, count=count)
        inputs.append(_elements(drawn, port.dtype).reshape(port.shape))
    return inputs


def _elements(drawn: NDArray[np.uint32], dtype: DType) -> NDArray[Any]:
    if dtype is DType.FLOAT32:
        return drawn.astype(np.uint8).view(np.int8).astype(np.float32) / np.float32(64)
    if dtype in (DType.INT8, DType.UINT8):
        return drawn.astype(np.uint8).view(dtype.numpy)
    if dtype in (DType.INT16, DType.UINT16):
        return drawn.astype(np.uint16).view(dtype.numpy)
    return (drawn & 1).astype(dtype.numpy)


def tolerance(expected: NDArray[np.float32]) -> float:
    """Largest absolute difference that passes for a float output: 1e-5 of its largest magnitude, at least of 1."""
    largest = float(np.max(np.abs(expected), initial=1.0))
    return FLOAT_TOLERANCE * largest
