# SPDX-License-Identifier: Apache-2.0
"""Lowers depthwise convolutions: `DepthwisePlane` where it applies (3x3, stride 1 or 2), quads of channels, or one
output at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from compiler.kernels.compact import compact
from compiler.kernels.dsp.depthwise_pixels import DepthwiseGeneral, DepthwisePixels, DepthwiseQuads
from compiler.kernels.dsp.depthwise_plane import EDGE_WORDS, DepthwisePlane
from compiler.kernels.dsp.requantize import Requantizer, plan
from compiler.kernels.dsp.row_ring import RingPlan
from compiler.kernels.kernel import INPUT, OUTPUT, SCRATCH, Constant, KernelCall, Lowered, Overlap, Place, Role
from compiler.kernels.overlap import Step, from_ring, in_steps, of_groups
from compiler.kernels.packing import accumulator_bounds, folded_bias
from compiler.kernels.problems import DepthwiseConv2D, Window

_PLANES_LIMITS = 12288, 4096
"""Bytes of scratch memory for the two planes; what needs more is cut into bands of rows. The second limit is for
arenas that have not so much room."""
_SPREAD, _OUTPUT = 5, (16, 25)
"""Instructions to spread a pair of rows' column of a channel, and of an output by stride: for estimates."""


@dataclass(frozen=True)
class _Plane:
    """The pairs of rows of a plane: words of a row, pairs in all, and which input rows they hold."""

    words: int
    pairs: int
    full: range
    """Pairs whose rows are both in the input."""
    last_half: bool
    """The pair behind them holds the last input row and one of padding."""

    @property
    def row_bytes(self) -> int:
        return 4 * self.words

    @property
    def bytes(self) -> int:
        return self.row_bytes * self.pairs

    @staticmethod
    def of(w: Window) -> _Plane | None:
        """None where the plane form does not apply."""
        if (w.kernel_height, w.kernel_width, w.dilation_height, w.dilation_width) != (3, 3, 1, 1):
            return None
        if w.stride_height != w.stride_width or w.stride_height > 2 or w.pad_top > 1:
            return None
        if w.input_channels != w.output_channels or w.input_channels < 2 or w.output_width < 2:
            return None
        words = max((w.output_width - 1) * w.stride_width + 3, w.pad_left + w.input_width)
        pairs = -(-w.output_height // 2) + 1 if w.stride_height == 1 else w.output_height + 1
        full = range(w.pad_top, min(pairs, (w.input_height + w.pad_top) // 2))
        if not full:
            return None
        last = 2 * full.stop - w.pad_top
        return _Plane(words, pairs, full, full.stop < pairs and last < w.input_height)


_PIXEL_TAP = 3
"""Instructions a tap of what goes pixel by pixel, about."""


def lower_depthwise_conv_2d(layer: DepthwiseConv2D) -> Lowered:
    w = layer.window
    cuts = [_bands(w, limit) for limit in _PLANES_LIMITS]
    if not cuts[0]:
        return _lower_pixels(layer)
    first = _lower_plane(layer, cuts[0])
    others = [_lower_plane(layer, bands) for bands in cuts[1:] if bands and len(bands) != len(cuts[0])]
    pixels = _lower_pixels(layer)
    others.append(compact(replace(pixels, instructions=_PIXEL_TAP * layer.macs)))
    return replace(first, alternatives=tuple(others))


def _lower_pixels(layer: DepthwiseConv2D) -> Lowered:
    w = layer.window
    quads = layer.multiplier == 1 and w.input_channels >= 4
    flat = layer.weights.reshape(-1, w.output_channels).T
    low, high = accumulator_bounds(flat, layer.bias, layer.input_zero_point)
    bias = folded_bias(flat, layer.bias, layer.input_zero_point)
    records = plan(layer.requantization, bias, low, high, 10 if quads else 15, folding=8 if quads else 0)
    padded = bool(w.pad_top or w.pad_left or w.pad_bottom or w.pad_right)
    ring = RingPlan.of(w)
    row = ring.row_bytes if padded else w.input_width * w.input_channels
    copy = ring.copy_bytes if padded else 0
    kernel: DepthwisePixels
    if quads:
        starts = np.minimum(np.arange(0, w.input_channels, 4), w.input_channels - 4)
        wide = flat.astype(np.int64)
        scaled = wide if records.form.scaled else wide << records.scales[:, None]
        members = starts[:, None] + np.array([0, 2, 1, 3])
        weights = scaled[members].transpose(0, 2, 1).astype("<i2").tobytes()
        table = records.words[starts[:, None] + np.arange(4)].reshape(len(starts), 4 * records.words.shape[1])
        overlap = w.input_channels % 4 != 0
        if overlap:
            table = np.concatenate([table, np.append(np.diff(starts), 0)[:, None]], 1)
        kernel, blocks = DepthwiseQuads(copy, records.form, w.kernel_width, overlap), len(starts)
    else:
        weights, table = np.ascontiguousarray(flat).astype(np.int8).tobytes(), records.words
        kernel, blocks = DepthwiseGeneral(copy, records.form), layer.multiplier
    arguments = (
        INPUT,
        OUTPUT,
        Constant(weights),
        _words(table),
        w.output_height,
        w.output_width,
        w.stride_width * w.input_channels,
        w.stride_height * row % ring.bytes if padded else w.stride_height * row,
        w.input_channels,
        blocks,
        w.kernel_height,
        w.kernel_width,
        w.dilation_height * row,
        w.dilation_width * w.input_channels,
        *((ring.rows, w.stride_height, *ring.arguments(w, layer.input_zero_point)) if padded else ()),
    )
    order = from_ring(w) if padded else of_groups(w, 1, reads_first=False)
    return Lowered((KernelCall(kernel, arguments),), ring.bytes if padded else 0, layer.macs, overlaps=(order,))


def _lower_plane(layer: DepthwiseConv2D, bands: list[_Band]) -> Lowered:
    w = layer.window
    channels = w.input_channels
    flat = layer.weights.reshape(9, channels).T
    low, high = accumulator_bounds(flat, layer.bias, layer.input_zero_point)
    bias = folded_bias(flat, layer.bias, layer.input_zero_point)
    records = plan(layer.requantization, bias, low, high, 10, folding=8)
    taps = flat.astype(np.int64) if records.form.scaled else flat.astype(np.int64) << records.scales[:, None]

    starts = np.minimum(np.arange(0, channels, 2), channels - 2)
    members = starts[:, None] + np.arange(2)
    words = np.concatenate([_weight_words(taps.reshape(channels, 3, 3), w.stride_height), records.words], 1)
    table = words[members].reshape(len(starts), 2 * words.shape[1])
    if channels % 2:
        table = np.concatenate([table, np.append(np.diff(starts), 0)[:, None]], 1)
    calls, scratch = [], 0
    for band in bands:
        call, used = _band_call(layer, band, records.form, _words(table), len(starts))
        calls.append(call)
        scratch = max(scratch, used)
    spread = sum(b.plane.pairs * (w.input_width * _SPREAD + b.plane.words) for b in bands) * channels
    outputs = w.output_height * w.output_width * channels * _OUTPUT[w.stride_height - 1]
    overlaps = _plane_overlaps(w, bands)
    return Lowered(tuple(calls), scratch, layer.macs, instructions=spread + outputs, overlaps=overlaps)


def _plane_overlaps(w: Window, bands: list[_Band]) -> tuple[Overlap, ...]:
    """A band reads and writes channel by channel, bands follow each other. None where channels are read again."""
    if w.input_channels % 2:
        return ()
    row = w.output_width * w.output_channels
    steps = [Step(b.input_offset, b.output_offset + b.window.output_height * row) for b in bands]
    between = in_steps(steps, w.input_height * w.input_width * w.input_channels, reads_first=True)
    return (replace(between, multiple=w.input_channels),)


@dataclass(frozen=True)
class _Band:
    """Rows of the output that are computed together: their window, and the bytes before it in input and output."""

    window: Window
    plane: _Plane
    input_offset: int
    output_offset: int


def _bands(w: Window, limit: int) -> list[_Band]:
    """The whole output if its planes are small, else bands of an even number of rows; none where the form does not
    apply."""
    rows, stride = w.output_height, w.stride_height
    whole = _Plane.of(w)
    if whole is None:
        return []
    if 2 * whole.bytes > limit:
        pairs = limit // (2 * whole.row_bytes)
        rows = max(2, 2 * (pairs - 1) if stride == 1 else (pairs - 1) // 2 * 2)
    bands = []
    for first in range(0, w.output_height, rows):
        count = min(rows, w.output_height - first)
        pairs = -(-count // 2) + 1 if stride == 1 else count + 1
        top = first * stride - w.pad_top
        begin, end = max(0, top), min(w.input_height, top + 2 * pairs)
        window = replace(w, input_height=end - begin, output_height=count, pad_top=max(0, -top))
        plane = _Plane.of(window)
        if plane is None:
            return []
        row = w.input_width * w.input_channels
        bands.append(_Band(window, plane, begin * row, first * w.output_width * w.output_channels))
    return bands


def _band_call(
    layer: DepthwiseConv2D, band: _Band, form: Requantizer, table: Constant, pairs: int
) -> tuple[KernelCall, int]:
    w, plane = band.window, band.plane
    channels, row = w.input_channels, w.input_width * w.input_channels
    zero = layer.input_zero_point & 255
    padding = zero | zero << 8
    edges: list[tuple[int, ...]] = []
    if w.pad_top:
        edges.append((0, 4 * w.pad_left, 16, padding))
    if plane.last_half:
        last = 2 * plane.full.stop - w.pad_top
        edges.append((last * row, plane.full.stop * plane.row_bytes + 4 * w.pad_left, 0, padding << 16))
    block = 4 if w.stride_width == 2 and w.output_width % 4 == 0 else 2
    kernel = DepthwisePlane(
        w.stride_height,
        next(u for u in (4, 3, 5, 2, 1) if w.input_width % u == 0),
        block,
        bool(edges),
        w.output_width % 2 == 1,
        w.stride_height == 1 and w.output_height % 2 == 1,
        channels % 2 == 1,
        form,
    )
    half = layer.input_zero_point & 0xFFFF
    arguments = (
        Place(Role.INPUT, 0, band.input_offset),
        Place(Role.OUTPUT, 0, band.output_offset),
        table,
        SCRATCH,
        pairs,
        channels,
        row,
        w.pad_top * row,
        len(plane.full),
        plane.bytes,
        plane.row_bytes,
        plane.full.start * plane.row_bytes + 4 * w.pad_left,
        half | half << 16,
        _words(np.array(edges or [(0,) * EDGE_WORDS], np.int64)),
        4 * EDGE_WORDS * len(edges),
        -(-w.output_height // 2) if w.stride_height == 1 else w.output_height,
        w.output_width // block * block * 4 * w.stride_width,
        w.output_width * channels,
    )
    return KernelCall(kernel, arguments), 2 * plane.bytes


def _weight_words(taps: NDArray[np.int64], stride: int) -> NDArray[np.int64]:
    """Taps [channels, 3, 3] as pairs of int16 [channels, words], in the order in which the kernel meets them."""

    def pair(low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.int64]:
        return (low & 0xFFFF) | (high & 0xFFFF) << 16

    top, middle, bottom = taps[:, 0], taps[:, 1], taps[:, 2]
    if stride == 1:
        return np.concatenate([pair(top, middle), pair(middle, bottom)], 1)
    nothing = np.zeros_like(bottom[:, 0])
    third = np.stack([pair(bottom[:, 0], bottom[:, 1]), pair(bottom[:, 2], nothing), nothing], 1)
    return np.concatenate([pair(top, middle), third], 1)


def _words(values: NDArray[np.int64]) -> Constant:
    return Constant((values & 0xFFFFFFFF).astype("<u4").tobytes())
