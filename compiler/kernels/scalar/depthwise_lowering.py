# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions to calls of `DepthwiseScalar`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from compiler.kernels import packed_records
from compiler.kernels.compact import Compact, compact
from compiler.kernels.kernel import INPUT, OUTPUT, SCRATCH, Argument, Constant, KernelCall, Lowered
from compiler.kernels.overlap import of_channels
from compiler.kernels.packed_records import Word
from compiler.kernels.packing import Int64Array, accumulator_bounds
from compiler.kernels.problems import DepthwiseConv2D, Window
from compiler.kernels.scalar import depthwise_halves_lowering
from compiler.kernels.scalar.clamps import within_reach
from compiler.kernels.scalar.core import Multiplier, ScalarCore
from compiler.kernels.scalar.depthwise import DepthwiseScalar, Weights
from compiler.kernels.scalar.depthwise_halves_lowering import Halves
from compiler.kernels.scalar.requantize import ChannelTable, channel_table

_WORDS = (Word.BIAS, Word.MULTIPLIER, Word.ROUNDING, Word.EXPONENT)


@dataclass(frozen=True)
class DepthwiseBlocking:
    """`weights`: where a core keeps weights of kernels with up to `unrolled` taps; larger ones run in loops.
    `copies`: pixels of a plane copied at a time. `pixels`: the groups it holds, by preference, unrolled and in loops.
    `output`: instructions an output."""

    weights: Weights
    unrolled: int
    copies: tuple[int, ...]
    pixels: tuple[int, ...]
    loop_pixels: tuple[int, ...]
    tap: float
    output: float
    group: float
    halves: Halves | None = None


def lower_depthwise_conv_2d(core: ScalarCore, blocking: DepthwiseBlocking, layer: DepthwiseConv2D) -> Lowered:
    """The layer without a table for clamps; the alternatives are with one, and with two outputs a multiplication."""
    weights = layer.weights.astype(np.int64).reshape(-1, layer.window.output_channels).T
    bounds = accumulator_bounds(weights, layer.bias, layer.input_zero_point)
    lookups = (False, True) if within_reach(core, layer.requantization, bounds) else (False,)
    plain, *others = (_lower(core, blocking, layer, lookup) for lookup in lookups)
    if blocking.halves is not None:
        halves = (depthwise_halves_lowering.lower(core, blocking.halves, layer, lookup) for lookup in lookups)
        others += [lowered for lowered in halves if lowered is not None]
    others.append(compact(_lower(core, _rolled(blocking), layer, False)))
    others += packed_lowerings(core, blocking, layer)
    return replace(plain, alternatives=tuple(others))


def packed_lowerings(core: ScalarCore, blocking: DepthwiseBlocking, layer: DepthwiseConv2D) -> list[Compact]:
    """The kernel without anything unrolled that takes packed records, in the shortest form that is exact; none where
    none is."""
    weights = layer.weights.astype(np.int64).reshape(-1, layer.window.output_channels).T
    folded = layer.input_zero_point + 128 * core.unsigned_inputs
    short = packed_records.shortened(weights, layer.bias, layer.input_zero_point, layer.requantization, folded)
    if short is None:
        return []
    kept = np.where(short.constant, 0, layer.weights).astype(layer.weights.dtype)
    layer = replace(layer, weights=kept, bias=short.bias, requantization=short.requantization)
    lowered = _lowered(core, _rolled(blocking), layer, False, packed=True)
    return [compact(lowered)] if lowered is not None else []


def _rolled(blocking: DepthwiseBlocking) -> DepthwiseBlocking:
    return replace(blocking, unrolled=0, copies=(1,), loop_pixels=(1,))


def _lower(core: ScalarCore, blocking: DepthwiseBlocking, layer: DepthwiseConv2D, lookup: bool) -> Lowered:
    lowered = _lowered(core, blocking, layer, lookup, packed=False)
    assert lowered is not None
    return lowered


def _lowered(
    core: ScalarCore, blocking: DepthwiseBlocking, layer: DepthwiseConv2D, lookup: bool, packed: bool
) -> Lowered | None:
    """None where records are to be packed and cannot be."""
    w = layer.window
    taps = w.kernel_height * w.kernel_width
    unrolls = taps <= blocking.unrolled and w.dilation_width == 1
    pixels = _choose(blocking, w, unrolls)
    biased = core.multiplier is Multiplier.NONE
    weights = layer.weights.astype(np.int64).reshape(taps, -1).T
    bias = layer.bias - (layer.input_zero_point + 128 * core.unsigned_inputs) * weights.sum(axis=1)
    bounds = accumulator_bounds(weights, layer.bias, layer.input_zero_point)
    table = channel_table(core, layer.requantization, bias, bounds, lookup, packed)
    kernel = DepthwiseScalar(
        core=core,
        form=table.form,
        weights=blocking.weights if unrolls else Weights.LOOP,
        pixels=pixels,
        stride=1 if packed and pixels == 1 else w.stride_width,
        rows=w.kernel_height if unrolls else 1,
        columns=w.kernel_width if unrolls else 1,
        copies=next(c for c in blocking.copies if w.input_width % c == 0),
        biased=biased and not unrolls,
        packed=packed,
    )
    plane_row = w.pad_left + w.input_width + w.pad_right
    plane_bytes = -(-(w.pad_top + w.input_height + w.pad_bottom) * plane_row // 4) * 4
    stored = weights + 128 * kernel.biased
    records, record_bytes = _records(table, stored)
    more: dict[str, Argument] = {}
    if packed:
        channels = packed_records.pack(table.words, _WORDS) if table.form.rounding.is_one_product else None
        if channels is None:
            return None
        rows = np.concatenate([channels.rows, (stored & 0xFF).astype(np.uint8)], axis=1)
        records, record_bytes = packed_records.constant(rows), rows.shape[1]
        more = packed_records.arguments(channels)
    first = w.output_width - (-(-w.output_width // pixels) - 1) * pixels
    values: dict[str, Argument] = {
        "input": INPUT,
        "output": OUTPUT,
        "records": records,
        "record_bytes": record_bytes,
        "channels": w.input_channels,
        "multiplier": layer.multiplier,
        "output_channels": w.output_channels,
        "input_height": w.input_height,
        "input_width": w.input_width,
        "plane": SCRATCH,
        "plane_row": plane_row,
        "plane_bytes": plane_bytes,
        "plane_interior": w.pad_top * plane_row + w.pad_left,
        "fill": ((layer.input_zero_point + 128 * core.unsigned_inputs) & 0xFF) * 0x01010101,
        "output_height": w.output_height,
        "output_row": w.output_width * w.output_channels,
        "row_advance": w.stride_height * plane_row,
        "tap_row": w.dilation_height * plane_row,
        "tap_column": w.dilation_width,
        "kernel_height": w.kernel_height,
        "kernel_width": w.kernel_width,
        "first_input": first * w.stride_width,
        "first_output": first * w.output_channels,
        "group_input": pixels * w.stride_width,
        "group_output": pixels * w.output_channels,
        **table.entries,
        "squares": core.squares_entry,
        **more,
    }
    call = KernelCall(kernel, tuple(values[name] for name in kernel.parameters))
    overlaps = (of_channels(w),) if layer.multiplier == 1 else ()
    instructions = _instructions(blocking, w, pixels)
    instructions -= lookup * core.lookup_gain * w.output_height * w.output_width * w.output_channels
    return Lowered((call,), plane_bytes, layer.macs, instructions=round(instructions), overlaps=overlaps)


def _choose(blocking: DepthwiseBlocking, w: Window, unrolls: bool) -> int:
    """The number of pixels in a group with the fewest instructions by estimate."""
    candidates = blocking.pixels if unrolls else blocking.loop_pixels
    return min((p for p in candidates if p <= w.output_width), key=lambda pixels: _instructions(blocking, w, pixels))


def _instructions(blocking: DepthwiseBlocking, w: Window, pixels: int) -> float:
    group = pixels * (w.kernel_height * w.kernel_width * blocking.tap + blocking.output) + blocking.group
    outputs = w.output_channels * w.output_height * (-(-w.output_width // pixels) * group + 12)
    return outputs + w.input_channels * w.input_height * (w.input_width * 3.3 + 12)


def _records(table: ChannelTable, weights: Int64Array) -> tuple[Constant, int]:
    """Each channel's words, then its weights as bytes up to a multiple of 4; and the bytes of a record."""
    channels, taps = weights.shape
    head = (table.words & 0xFFFFFFFF).astype("<u4").view(np.uint8).reshape(channels, -1)
    tail = np.zeros((channels, -(-taps // 4) * 4), np.uint8)
    tail[:, :taps] = weights & 0xFF
    records = np.concatenate([head, tail], axis=1)
    return Constant(records.tobytes()), records.shape[1]
