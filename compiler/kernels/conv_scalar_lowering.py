# SPDX-License-Identifier: Apache-2.0
"""Convolutions and fully connected layers to calls of `ConvScalar`: blocking, packed weights, channel tables."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from compiler.kernels.conv_ring_scalar import ConvScalar
from compiler.kernels.conv_rows_scalar import Copy
from compiler.kernels.kernel import INPUT, OUTPUT, SCRATCH, Argument, Constant, KernelCall, Lowered, Place, Role
from compiler.kernels.packing import Int64Array, accumulator_bounds
from compiler.kernels.problems import Conv2D, FullyConnected, Requantization, Window
from compiler.kernels.scalar_core import ScalarCore
from compiler.kernels.scalar_requantize import WORDS, ChannelTable, channel_table


@dataclass(frozen=True)
class BlockShape:
    """A block that a core's registers hold, with measured instructions: one step along the window for the whole
    block, one inner iteration's own, one output's requantisation, one block's own."""

    channels: int
    pixels: int
    step: float
    iteration: float
    output: float
    block: float
    unrolls: tuple[int, ...]


@dataclass(frozen=True)
class Blocking:
    """Shapes by preference. `segment`: instructions a segment and block; `copy`: a byte of a gathered window."""

    shapes: tuple[BlockShape, ...]
    segment: float = 14
    copy: float = 2.5


@dataclass(frozen=True)
class _Choice:
    shape: BlockShape
    unroll: int
    gather: int
    cost: float


@dataclass(frozen=True, eq=False)
class _Product:
    """A layer as matrix rows: weights int64 [channels, segments, segment bytes], window, zero points."""

    window: Window
    weights: Int64Array
    bias: Int64Array
    input_zero_point: int
    filter_zero_point: int
    requantization: Requantization
    macs: int


def lower_conv_2d(core: ScalarCore, blocking: Blocking, layer: Conv2D) -> Lowered:
    w = layer.window
    channels, taps = w.output_channels, w.kernel_height * w.kernel_width
    split = w.dilation_width > 1 and w.kernel_width > 1
    segments = taps if split else w.kernel_height
    weights = layer.weights.astype(np.int64).reshape(channels, segments, -1)
    if w.is_pointwise and not core.unsigned_inputs:
        pixels = w.input_height * w.input_width
        w = replace(w, input_height=1, input_width=pixels, output_height=1, output_width=pixels)
    return _lower(
        core,
        blocking,
        _Product(w, weights, layer.bias, layer.input_zero_point, 0, layer.requantization, layer.macs),
    )


def lower_fully_connected(core: ScalarCore, blocking: Blocking, layer: FullyConnected) -> Lowered:
    outputs, depth = layer.weights.shape
    rows, columns = (layer.batches, 1) if core.unsigned_inputs else (1, layer.batches)
    window = Window(rows, columns, depth, rows, columns, outputs, 1, 1, 1, 1, 0, 0)
    weights = layer.weights.astype(np.int64).reshape(outputs, 1, depth)
    return _lower(
        core,
        blocking,
        _Product(
            window,
            weights,
            layer.bias,
            layer.input_zero_point,
            layer.filter_zero_point,
            layer.requantization,
            layer.macs,
        ),
    )


def _lower(core: ScalarCore, blocking: Blocking, product: _Product) -> Lowered:
    w = product.window
    channels, segments, length = product.weights.shape
    ring = core.unsigned_inputs or any((w.pad_top, w.pad_left, w.pad_bottom, w.pad_right))
    choice = _choose(blocking, w, segments, length, ring)
    shape, unroll = choice.shape, choice.unroll
    rows = product.weights.reshape(channels, 1, -1) if choice.gather else product.weights
    padded = -(-rows.shape[2] // unroll) * unroll
    weights = np.full((*rows.shape[:2], padded), product.filter_zero_point, np.int64)
    weights[:, :, : rows.shape[2]] = rows
    centred = (weights - product.filter_zero_point).reshape(channels, -1)
    bias = product.bias - (product.input_zero_point + 128 * core.unsigned_inputs) * centred.sum(axis=1)
    bounds = accumulator_bounds(centred, product.bias, product.input_zero_point)
    table = channel_table(core, product.requantization, bias, bounds)
    starts = [min(start, channels - shape.channels) for start in range(0, channels, shape.channels)]
    sum_factor = product.filter_zero_point + 128 * core.unsigned_weights
    kernel = ConvScalar(
        core=core,
        form=table.form,
        channels=shape.channels,
        pixels=shape.pixels,
        unroll=unroll,
        copy=Copy.NONE if not ring else Copy.BYTES if w.input_width * w.input_channels % 4 else Copy.WORDS,
        single=segments == 1,
        gather=choice.gather,
        sums=sum_factor != 0,
        pitch=0
        if segments == 1 or shape.pixels == 1
        else padded
        if choice.gather
        else w.stride_width * w.input_channels,
    )
    pointers = 0 if kernel.single else 4 * segments
    gathered = -(-shape.pixels * padded // 4) * 4 if choice.gather else 0
    values = _geometry(w, segments, shape, kernel, pointers + gathered, product.input_zero_point)
    values |= {
        "weights": _packed_weights(core, weights, starts, shape.channels),
        "blocks": _blocks(table, starts, shape.channels),
        "block_count": len(starts),
        "segment_bytes": length if choice.gather else padded,
        "product_bytes": padded,
        "gathered": Place(Role.SCRATCH, offset=pointers) if choice.gather else 0,
        "sum_factor": sum_factor,
        "clamp_size": table.size,
        "clamp_minimum": table.minimum,
        "clamp_offset": table.offset,
    }
    # The last window of the last row may read to the end of its padded segment.
    scratch = pointers + gathered + (values["ring_bytes"] + unroll if ring else 0)  # type: ignore[operator]
    call = KernelCall(kernel, tuple(values[name] for name in ConvScalar.parameters))
    return Lowered((call,), int(scratch), product.macs)


def _geometry(
    w: Window, segments: int, shape: BlockShape, kernel: ConvScalar, before_ring: int, zero_point: int
) -> dict[str, Argument]:
    channels = w.input_channels
    lead = -w.pad_left * channels % 4 if kernel.copy is Copy.WORDS else 0
    span = (w.kernel_height - 1) * w.dilation_height + 1
    input_row = w.input_width * channels
    ring_row = -(-(lead + (w.pad_left + w.input_width + w.pad_right) * channels) // 4) * 4
    pixel_input = w.stride_width * channels
    last = w.output_width - shape.pixels
    fill = (zero_point + 128 * kernel.core.unsigned_inputs) & 0xFF
    return {
        "input": INPUT,
        "output": OUTPUT,
        "scratch": 0 if kernel.single else SCRATCH,
        "output_height": w.output_height,
        "group_count": -(-w.output_width // shape.pixels),
        "group_input": shape.pixels * pixel_input,
        "group_output": shape.pixels * w.output_channels,
        "last_input": last * pixel_input,
        "last_output": last * w.output_channels,
        "output_row": w.output_width * w.output_channels,
        "pixel_input": pixel_input,
        "pixel_output": w.output_channels,
        "segment_count": segments,
        "segment_rows": w.kernel_height,
        "segment_columns": segments // w.kernel_height,
        "segment_step": w.dilation_width * channels,
        "row_step": w.dilation_height * (ring_row if kernel.copy is not Copy.NONE else input_row),
        "input_step": w.stride_height * input_row,
        "ring": Place(Role.SCRATCH, offset=before_ring) if kernel.copy is not Copy.NONE else 0,
        "ring_row": ring_row,
        "ring_bytes": span * ring_row,
        "ring_lead": lead,
        "ring_interior": lead + w.pad_left * channels,
        "input_row": input_row,
        "input_units": input_row // 4 if kernel.copy is Copy.WORDS else input_row,
        "input_height": w.input_height,
        "pad_top": w.pad_top,
        "row_stride": w.stride_height,
        "row_span": span,
        "fill": fill * 0x01010101,
    }


def _choose(blocking: Blocking, w: Window, segments: int, length: int, ring: bool) -> _Choice:
    """The block shape, unrolling and gathering with the fewest instructions by estimate."""

    def choice(shape: BlockShape, unroll: int, gather: bool) -> _Choice:
        blocks = -(-w.output_channels // shape.channels)
        groups = w.output_height * -(-w.output_width // shape.pixels)
        rows, row = (1, segments * length) if gather else (segments, length)
        inner = rows * (-(-row // unroll) * (unroll * shape.step + shape.iteration) + blocking.segment * (rows > 1))
        block = inner + shape.block + shape.channels * shape.pixels * shape.output
        copies = shape.pixels * segments * (12 + length * blocking.copy) if gather else 0
        copied = next(u for u in (4, 3, 2, 1) if length % u == 0) if gather else 0
        return _Choice(shape, unroll, copied, groups * (blocks * block + copies))

    candidates = [
        choice(shape, unroll, gather)
        for shape in blocking.shapes
        if shape.channels <= w.output_channels and shape.pixels <= w.output_width
        for gather in ((False, True) if segments > 1 else (False,))
        for unroll in shape.unrolls
        if ring or gather or length % unroll == 0
    ]
    return min(candidates, key=lambda c: c.cost)


def _packed_weights(core: ScalarCore, weights: Int64Array, starts: list[int], block: int) -> Constant:
    """int8 or biased uint8 [block, segment, byte, channel]."""
    blocks = np.stack([weights[start : start + block].transpose(1, 2, 0) for start in starts])
    return Constant(((blocks + 128 * core.unsigned_weights) & 0xFF).astype(np.uint8).tobytes())


def _blocks(table: ChannelTable, starts: list[int], block: int) -> Constant:
    """int32 records [block]: the offset of its channels, then WORDS a channel."""
    records = np.empty((len(starts), 1 + WORDS * block), np.int64)
    records[:, 0] = starts
    for record, start in zip(records, starts, strict=True):
        record[1:] = table.words[start : start + block].reshape(-1)
    return Constant((records & 0xFFFFFFFF).astype("<u4").tobytes())
