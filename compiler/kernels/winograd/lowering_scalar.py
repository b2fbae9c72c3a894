# SPDX-License-Identifier: Apache-2.0
"""Lowers convolutions to `WinogradScalar`, where that is proven exact."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.kernels.dsp.requantize import Records, plan
from compiler.kernels.dsp.row_ring import RingPlan
from compiler.kernels.kernel import Constant, KernelCall, Lowered
from compiler.kernels.overlap import from_ring
from compiler.kernels.packing import Int64Array, accumulator_bounds, folded_bias
from compiler.kernels.problems import Conv2D
from compiler.kernels.scalar.clamps import CLAMP_FIELDS, clamp_entries, clamp_of, clamp_origin, within_reach
from compiler.kernels.scalar.core import ScalarCore
from compiler.kernels.winograd import lowering as common
from compiler.kernels.winograd.arithmetic import TRANSFORMS, Transform
from compiler.kernels.winograd.scalar import ScalarRescale, WinogradScalar

_PREFERRED_SHIFT = 17
_LIMIT = 1 << 31


@dataclass(frozen=True)
class WinogradShape:
    """F(`tile` x `tile`, 3x3) with a block of `channels` by `tiles`; with a `strip`, weights on the fly."""

    tile: int
    channels: int
    tiles: int
    strip: int = 0


@dataclass(frozen=True)
class WinogradForms:
    """The shapes that suit a core, LLVM's flags, and measured instructions: loading a weight, a value, a product; the
    inputs' transform, a quad and row of a tile; the way back, a channel of a tile, for tiles of 4 and of 2; the
    weights' transform for tiles of 4, a quad of a channel."""

    shapes: tuple[WinogradShape, ...]
    flags: tuple[str, ...]
    weight: float
    value: float
    product: float
    forward: tuple[float, float]
    back: tuple[float, float]
    expand: float


def alternatives(core: ScalarCore, forms: WinogradForms, layer: Conv2D) -> tuple[Lowered, ...]:
    """The layer's Winograd forms."""
    found = (lower(core, layer, shape, forms, lookup) for shape in forms.shapes for lookup in (False, True))
    return tuple(lowered for lowered in found if lowered is not None)


def lower(
    core: ScalarCore, layer: Conv2D, shape: WinogradShape, forms: WinogradForms, lookup: bool = False
) -> Lowered | None:
    """The layer in a form, clamped by a table if `lookup`; None where the kernel does not cover it, or where numbers
    may exceed 32 bits or the table."""
    transform, w = TRANSFORMS[shape.tile], layer.window
    if not common.fits(layer, transform, shape.tiles, shape.channels, shape.strip):
        return None
    flat = layer.weights.reshape(w.output_channels, -1)
    low, high = accumulator_bounds(flat, layer.bias, layer.input_zero_point)
    if lookup and not within_reach(core, layer.requantization, (low, high)):
        return None
    bias = folded_bias(flat, layer.bias, layer.input_zero_point)
    records = plan(layer.requantization, bias, low, high, _PREFERRED_SHIFT, carried=transform.carried)
    found = None if records.form.exact else _rescale(core, layer, records, low, high, lookup)
    if found is None:
        return None
    rescale, fields = found
    kernel = WinogradScalar(
        tile=shape.tile,
        tiles=shape.tiles,
        channels=shape.channels,
        depth=w.input_channels,
        pixel_bytes=w.output_channels,
        row_bytes=w.output_width * w.output_channels,
        copy_bytes=RingPlan.of(w).copy_bytes,
        strip=shape.strip,
        core=core,
        rescale=rescale,
        flags=forms.flags,
    )
    first = common.block_starts(w.output_channels, shape.channels)
    members = first[:, None] + np.arange(shape.channels)
    if shape.strip:
        stream = common.words(common.expandable(layer, transform, core.unsigned_inputs)[members])
    else:
        stream = _stored(layer, transform, members, core.unsigned_inputs)
    table = np.concatenate([first[:, None], fields[members].reshape(len(first), -1)], 1)
    arguments, scratch = common.arguments(layer, kernel, stream, common.words(table))
    clamp = clamp_entries(rescale.clamp, layer.requantization)
    call = KernelCall(kernel, (*arguments, *(clamp[name] for name in CLAMP_FIELDS)))
    outputs = w.output_height * w.output_width * w.output_channels
    instructions = _instructions(layer, kernel, forms) - lookup * core.lookup_gain * outputs
    return Lowered(
        (call,), scratch, layer.macs, instructions=instructions, overlaps=(from_ring(w, kernel.rows_at_once),)
    )


def _stored(layer: Conv2D, transform: Transform, members: Int64Array, both_lanes: bool) -> Constant:
    """int16 [blocks, positions, inputs, channels] behind the start values, int32 [blocks, positions, channels]."""
    weights, starts = common.transformed(layer, transform, both_lanes)
    values = weights[members].transpose(0, 2, 3, 1).reshape(len(members), transform.positions, -1)
    body = np.ascontiguousarray(values, "<i2").view("<u4")
    head = (starts[members].transpose(0, 2, 1) & 0xFFFFFFFF).astype("<u4")
    return Constant(np.concatenate([head, body], 2).tobytes())


def _rescale(
    core: ScalarCore, layer: Conv2D, records: Records, low: Int64Array, high: Int64Array, lookup: bool
) -> tuple[ScalarRescale, Int64Array] | None:
    """The form and each channel's fields, int64 [channels, fields]."""
    r, form = layer.requantization, records.form
    columns = dict(zip(form.fields, records.words.T, strict=True))
    shift = columns["shift"] if form.shift is None else np.full_like(low, form.shift)
    clamp, spare = clamp_of(r, lookup), 127 - r.maximum if form.clamp else 0
    offset = columns["offset"] - (spare + clamp_origin(core, clamp, r.minimum) << shift)
    scales = np.where(columns["multiplier"] == 0, 0, records.scales)
    for end in (low, high):
        y = ((end << scales) * columns["multiplier"] >> 32) + offset
        if np.any((y < -_LIMIT + (1 << 24)) | (y >= _LIMIT - (1 << 24))) or np.any(abs(offset) >= _LIMIT):
            return None
    rescale = ScalarRescale(form.shift, form.tie, clamp)
    values = columns | {"offset": offset, "shift": shift}
    fields = [4 * columns["scale"], *(values[name] for name in rescale.fields)]
    return rescale, np.stack(fields, 1)


def _instructions(layer: Conv2D, kernel: WinogradScalar, forms: WinogradForms) -> int:
    w, quads, channels, tiles = layer.window, kernel.depth // 4, kernel.channels, kernel.tiles
    kind = 0 if kernel.tile == 4 else 1
    quad = 4 * (forms.weight * channels + forms.value * tiles + forms.product * channels * tiles) + 6
    multiplications = kernel.transform.positions * (quads * quad + channels * tiles + channels + 8)
    inputs = kernel.transform.size * quads * tiles * forms.forward[kind]
    blocks = -(-w.output_channels // channels)
    groups = -(-w.output_width // (kernel.tile * tiles)) * max(kernel.strip, 1)
    one_group = inputs + blocks * (multiplications + channels * tiles * forms.back[kind])
    expanding = blocks * channels * (quads + 1) * forms.expand if kernel.strip else 0
    return round(-(-w.output_height // kernel.rows_at_once) * (groups * one_group + expanding))
