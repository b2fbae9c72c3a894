# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions to calls of `DepthwiseHalves`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compiler.kernels.kernel import INPUT, OUTPUT, SCRATCH, Argument, Constant, KernelCall, Lowered
from compiler.kernels.overlap import of_channels
from compiler.kernels.packing import Int64Array, accumulator_bounds
from compiler.kernels.problems import DepthwiseConv2D, Window
from compiler.kernels.scalar.core import ScalarCore
from compiler.kernels.scalar.depthwise_halves import HALF, LIMIT, DepthwiseHalves, Held
from compiler.kernels.scalar.requantize import ChannelTable, channel_table

MOST_TAPS = 9
COPIES = (3, 4, 5, 2, 1)
"""Words of a plane copied at a time, by preference: 3 divides the widths of most networks, which then share kernels."""


@dataclass(frozen=True)
class Halves:
    """What suits a core: taps a group, the most first; pixels at a time, by preference; weights in registers. Measured
    instructions: a tap's product and sum, taking a group of taps apart, an output, loading a word, and making it."""

    groups: tuple[int, ...]
    pixels: tuple[int, ...]
    held: Held
    tap: float
    part: float
    output: float
    load: float
    word: float


def lower(core: ScalarCore, halves: Halves, layer: DepthwiseConv2D, lookup: bool) -> Lowered | None:
    """The layer, with outputs clamped by a table if `lookup`; None where the kernel does not cover it or its weights do
    not allow it."""
    w = layer.window
    taps = w.kernel_height * w.kernel_width
    plain = layer.multiplier == 1 and (w.dilation_height, w.dilation_width) == (1, 1)
    if not plain or taps > MOST_TAPS or w.output_height == 1:
        return None
    weights = layer.weights.astype(np.int64).reshape(taps, -1).T
    groups = _groups(weights, halves.groups)
    if (groups == 0).any():
        return None
    bias = layer.bias - layer.input_zero_point * weights.sum(axis=1)
    bounds = accumulator_bounds(weights, layer.bias, layer.input_zero_point)
    table = channel_table(core, layer.requantization, bias, bounds, lookup)
    entries = _geometry(w, layer.input_zero_point) | table.entries
    calls, instructions = [], 0.0
    for group in sorted(set(groups.tolist())):
        members = np.flatnonzero(groups == group)
        kernel = _kernel(core, halves, table, w, group)
        entries |= _records(table, weights, members, group)
        calls.append(KernelCall(kernel, tuple(entries[name] for name in DepthwiseHalves.parameters)))
        instructions += _instructions(halves, w, kernel, len(members))
    instructions -= lookup * core.lookup_gain * w.output_height * w.output_width * w.output_channels
    scratch = 4 * _plane_rows(w) * _plane_width(w)
    return Lowered(tuple(calls), scratch, layer.macs, instructions=round(instructions), overlaps=(of_channels(w),))


def _groups(weights: Int64Array, sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """For each channel of weights [channels, taps] the first of `sizes` whose groups are within LIMIT; else 0."""
    found = np.zeros(len(weights), np.int64)
    for size in sizes:
        sums = np.add.reduceat(abs(weights), np.arange(0, weights.shape[1], size), axis=1)
        found[(found == 0) & (sums.max(axis=1) <= LIMIT)] = size
    return found


def _kernel(core: ScalarCore, halves: Halves, table: ChannelTable, w: Window, group: int) -> DepthwiseHalves:
    return DepthwiseHalves(
        core=core,
        form=table.form,
        pixels=next(p for p in halves.pixels if w.output_width % p == 0),
        stride=w.stride_width,
        rows=w.kernel_height,
        columns=w.kernel_width,
        group=group,
        copies=next(c for c in COPIES if w.input_width % c == 0),
        held=halves.held,
    )


def _half(w: Window) -> int:
    """Output rows of a half; where they are odd, both have the middle one."""
    return -(-w.output_height // 2)


def _plane_rows(w: Window) -> int:
    return (_half(w) - 1) * w.stride_height + w.kernel_height


def _plane_width(w: Window) -> int:
    return w.pad_left + w.input_width + w.pad_right


def _geometry(w: Window, zero_point: int) -> dict[str, Argument]:
    apart, row = w.output_height - _half(w), 4 * _plane_width(w)
    phases = _phases(w, apart * w.stride_height)
    return {
        "input": INPUT,
        "output": OUTPUT,
        "channels": w.input_channels,
        "padding": Constant((zero_point & 0xFF).to_bytes(1, "little"), 1),
        "lower_input": max(apart * w.stride_height - w.pad_top, 0) * w.input_width * w.input_channels,
        "phases": phases,
        "phases_bytes": len(phases.data),
        "plane": SCRATCH,
        "plane_row": row,
        "plane_bytes": _plane_rows(w) * row,
        "plane_interior": 4 * w.pad_left,
        "interior_bytes": 4 * w.input_width,
        "fill": zero_point * 0x10001,
        "output_rows": _half(w),
        "output_row": w.output_width * w.output_channels,
        "lower_output": apart * w.output_width * w.output_channels,
        "row_advance": w.stride_height * row,
    }


def _phases(w: Window, apart: int) -> Constant:
    """Runs of plane rows whose halves, `apart` rows of the input, are alike in being inside of it."""
    lines = np.arange(_plane_rows(w))[:, None] - w.pad_top + np.array([0, apart])
    inside = (lines >= 0) & (lines < w.input_height)
    starts = np.flatnonzero(np.concatenate([[True], (inside[1:] != inside[:-1]).any(axis=1)]))
    counts = np.diff(np.append(starts, len(inside)))
    return Constant(np.column_stack([counts, -inside[starts].astype(np.int64)]).astype("<i4").tobytes(), steers=True)


def _records(table: ChannelTable, weights: Int64Array, members: NDArray[np.int64], group: int) -> dict[str, Argument]:
    bias, parts = table.words[members, 0], -(-weights.shape[1] // group)
    correction = bias + (bias << 16) - parts * HALF
    words = np.column_stack([members, correction, table.words[members], weights[members]])
    data = (words & 0xFFFFFFFF).astype("<u4").tobytes()
    return {"records": Constant(data), "records_bytes": len(data)}


def _instructions(halves: Halves, w: Window, kernel: DepthwiseHalves, channels: int) -> float:
    pixels, columns = kernel.pixels, (kernel.pixels - 1) * kernel.stride + kernel.columns
    parts = -(-kernel.taps // kernel.group)
    group = pixels * (kernel.taps * halves.tap + parts * halves.part + 2 * halves.output)
    group += kernel.rows * columns * halves.load
    plane = _plane_rows(w) * (w.input_width * halves.word + 8)
    return channels * (_half(w) * (-(-w.output_width // pixels) * group + 15) + plane)
