# SPDX-License-Identifier: Apache-2.0
"""Lowers convolutions to `WinogradDsp`, where that is proven exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from compiler.kernels.dsp.requantize import plan
from compiler.kernels.dsp.row_ring import RingPlan
from compiler.kernels.kernel import Constant, KernelCall, Lowered
from compiler.kernels.overlap import from_ring
from compiler.kernels.packing import Int64Array, accumulator_bounds, folded_bias
from compiler.kernels.problems import Conv2D
from compiler.kernels.winograd import lowering as common
from compiler.kernels.winograd.arithmetic import TRANSFORMS, Transform
from compiler.kernels.winograd.dsp import MOST_QUADS, WinogradDsp

_CHANNELS = 2
_PREFERRED_SHIFT = 17
_TRANSFORMS = {4: (127, 300, 460), 2: (51, 90, 250)}
"""By tile: instructions of the inputs' transforms, a quad and row of a tile; of the way back, a channel of a tile; of
the weights' transform, a quad of a channel."""
_VARIANTS = ((4, 2, 0), (4, 1, 0), (2, 2, 0), (2, 1, 0), (4, 2, 1), (4, 2, 2), (4, 2, 4), (4, 1, 1))
"""Tile, tiles, strip."""


def alternatives(layer: Conv2D) -> tuple[Lowered, ...]:
    """The layer's Winograd forms."""
    found = (lower(layer, tile, tiles, strip) for tile, tiles, strip in _VARIANTS)
    return tuple(lowered for lowered in found if lowered is not None)


def lower(layer: Conv2D, tile: int, tiles: int, strip: int = 0) -> Lowered | None:
    """The layer by F(tile x tile, 3x3), `tiles` tiles at a time; None where the kernel does not cover it, or where
    accumulators with the factor 2^s that the transform needs may exceed 32 bits.

    Weights are in flash as they are multiplied or, with `strip` rows of tiles at a time, transformed on the fly."""
    transform, w = TRANSFORMS[tile], layer.window
    if not common.fits(layer, transform, tiles, _CHANNELS, strip):
        return None
    flat = layer.weights.reshape(w.output_channels, -1)
    low, high = accumulator_bounds(flat, layer.bias, layer.input_zero_point)
    bias = folded_bias(flat, layer.bias, layer.input_zero_point)
    records = plan(layer.requantization, bias, low, high, _PREFERRED_SHIFT, carried=transform.carried)
    if records.form.exact:
        return None
    kernel = WinogradDsp(
        tile=tile,
        tiles=tiles,
        channels=_CHANNELS,
        depth=w.input_channels,
        pixel_bytes=w.output_channels,
        row_bytes=w.output_width * w.output_channels,
        copy_bytes=RingPlan.of(w).copy_bytes,
        strip=strip,
        requantizer=replace(records.form, scaled=False),
    )
    first = common.block_starts(w.output_channels, _CHANNELS)
    members = first[:, None] + np.arange(_CHANNELS)
    if strip:
        stream = common.words(common.expandable(layer, transform)[members])
    else:
        stream = _stored(layer, transform, members)
    fields = records.form.fields
    columns = [4 * records.words[:, fields.index("scale")]]
    columns += [records.words[:, fields.index(field)] for field in kernel.fields[1:]]
    table = np.concatenate([first[:, None], np.stack(columns, 1)[members].reshape(len(first), -1)], 1)
    arguments, scratch = common.arguments(layer, kernel, stream, common.words(table))
    return Lowered(
        (KernelCall(kernel, arguments),),
        scratch,
        layer.macs,
        instructions=_instructions(layer, kernel),
        overlaps=(from_ring(w, kernel.rows_at_once),),
    )


def _stored(layer: Conv2D, transform: Transform, members: Int64Array) -> Constant:
    """int16 [blocks, positions, quads, channels, 4] behind the start values, int32 [blocks, positions, channels]."""
    weights, starts = common.transformed(layer, transform)
    quads = weights.reshape(*weights.shape[:2], -1, 4)[members].transpose(0, 2, 3, 1, 4)
    body = np.ascontiguousarray(quads.reshape(len(members), transform.positions, -1), "<i2").view("<u4")
    head = (starts[members].transpose(0, 2, 1) & 0xFFFFFFFF).astype("<u4")
    return Constant(np.concatenate([head, body], 2).tobytes(), 8)


def _instructions(layer: Conv2D, kernel: WinogradDsp) -> int:
    """About what the kernel takes; measured constants."""
    w, quads, tiles = layer.window, kernel.depth // 4, kernel.tiles
    forward, back, expand = _TRANSFORMS[kernel.tile]
    blocks = -(-w.output_channels // _CHANNELS)
    inputs = kernel.transform.size * quads * tiles * forward
    multiplications = kernel.transform.positions * (quads * (2 + 5 * tiles) + 9 + 3 * (quads // MOST_QUADS))
    groups = -(-w.output_width // (kernel.tile * tiles)) * max(kernel.strip, 1)
    one_group = inputs + blocks * (multiplications + _CHANNELS * tiles * back)
    expanding = blocks * _CHANNELS * (quads + 1) * expand if kernel.strip else 0
    return -(-w.output_height // kernel.rows_at_once) * (groups * one_group + expanding)
