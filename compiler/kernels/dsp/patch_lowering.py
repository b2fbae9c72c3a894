# SPDX-License-Identifier: Apache-2.0
"""Lowers convolutions and fully connected layers to `PatchMatrix`: weight order, blocks, records, buffers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from compiler.kernels import packed_records
from compiler.kernels.compact import compact as as_compact
from compiler.kernels.dsp.patch_gather import Gather, Source
from compiler.kernels.dsp.patch_matrix import PatchMatrix
from compiler.kernels.dsp.patch_weights import WORDS_LIMIT, Matrix, PackedWeights, WeightForm, pack
from compiler.kernels.dsp.requantize import Records, Requantizer
from compiler.kernels.dsp.row_ring import RingPlan
from compiler.kernels.kernel import INPUT, OUTPUT, Argument, Constant, KernelCall, Lowered, Overlap, Place, Role
from compiler.kernels.overlap import elementwise, from_ring, of_groups
from compiler.kernels.packed_records import Word
from compiler.kernels.portable.unpack import unpacked
from compiler.kernels.problems import Conv2D, FullyConnected, Window

_UNROLLS = (8, 10, 9, 7, 6, 5, 4, 3, 2, 1)


_CONVERT = 3
"""Instructions to convert a quad where it is multiplied."""
_DIRECT_DEPTH = 1024
"""Beyond this depth a single pixel's buffer (2 bytes an element) is not worth its memory."""


_BUFFER_LIMIT = 16384
"""Bytes of scratch memory for the patches of three pixels."""
_GATHER, _BLOCK, _OUTPUT = 6.5, 24, 6
"""Instructions, about: a quad of a pixel's patch, a block's own, an output."""


@dataclass(frozen=True)
class _Way:
    """How patches are gathered: the form, its sizes as the kernel takes them, and the ring's."""

    gather: Gather
    sizes: tuple[Argument, ...]
    scratch: int
    overlap: Overlap
    ring: tuple[Argument, ...] = ()


def lower_conv_2d(layer: Conv2D) -> Lowered:
    w = layer.window
    taps = w.kernel_width if w.dilation_width > 1 else 1
    weights = layer.weights.reshape(w.output_channels, w.kernel_height * taps, -1)
    matrix = Matrix(weights, layer.bias, layer.input_zero_point, layer.requantization)
    pixels = w.output_height * w.output_width
    if w.is_pointwise:
        return _lower(matrix, pixels, _flat(matrix, pixels), layer.macs)
    return _lower(matrix, pixels, partial(_windowed, layer, matrix, taps), layer.macs)


def lower_fully_connected(layer: FullyConnected) -> Lowered:
    weights = layer.weights.astype(np.int64) - layer.filter_zero_point
    parts = np.stack(_as_int8_sums(weights), 1)
    matrix = Matrix(parts, layer.bias, layer.input_zero_point, layer.requantization)
    return _lower(matrix, layer.batches, _flat(matrix, layer.batches), layer.macs)


def _flat(matrix: Matrix, pixels: int) -> Callable[[int], _Way]:
    def way(at_once: int) -> _Way:
        whole, tail = divmod(matrix.run, 4)
        unroll, straight = _steps(whole)
        back = -(-pixels % at_once)  # negative: the last group starts so many pixels earlier
        backs = back * matrix.run, back * matrix.channels
        sizes = (-(-pixels // at_once), matrix.channels, *backs, 4 * whole, _tails(matrix, at_once))
        overlap = of_groups(_line(matrix, pixels), at_once, reads_first=True)
        return _Way(Gather(Source.FLAT, matrix.runs, unroll, tail, straight), sizes, 0, overlap)

    return way


def _line(matrix: Matrix, pixels: int) -> Window:
    """Consecutive patches as a 1x1 convolution."""
    return Window(1, pixels, matrix.run, 1, pixels, matrix.channels, 1, 1, 1, 1, 0, 0)


def _windowed(layer: Conv2D, matrix: Matrix, taps: int, at_once: int) -> _Way:
    w = layer.window
    padded = bool(w.pad_top or w.pad_left or w.pad_bottom or w.pad_right)
    ring = RingPlan.of(w)
    row = ring.row_bytes if padded else w.input_width * w.input_channels
    whole, tail = divmod(matrix.run, 4)
    unroll, straight = _steps(whole)
    gather = Gather(
        Source.RING if padded else Source.PLANE,
        matrix.runs,
        unroll,
        tail,
        straight,
        taps,
        w.output_width % at_once == 0,
        ring.copy_bytes if padded else 4,
    )
    sizes = (
        -(-w.output_height * w.output_width // at_once),
        matrix.channels,
        w.output_height,
        w.output_width,
        w.stride_width * w.input_channels,
        w.dilation_height * row,
        w.stride_height * row % ring.bytes if padded else w.stride_height * row,
        w.stride_height,
        ring.rows,
        w.dilation_width * w.input_channels,
        4 * whole,
        _tails(matrix, at_once),
    )
    ring_arguments = tuple(ring.arguments(w, layer.input_zero_point)) if padded else ()
    overlap = from_ring(w) if padded else of_groups(w, at_once, reads_first=True, in_row=False)
    return _Way(gather, sizes, ring.bytes if padded else 0, overlap, ring_arguments)


def _is_direct(matrix: Matrix, blocks: int) -> bool:
    """Whether a single pixel's bytes are better converted where they are multiplied."""
    return matrix.runs == 1 and matrix.run % 4 == 0 and (blocks == 1 or matrix.run > _DIRECT_DEPTH)


def _tails(matrix: Matrix, at_once: int) -> int:
    """Where a pixel's tails start in the buffer, in bytes."""
    return 8 * at_once * (matrix.run // 4) * matrix.runs


def _steps(whole: int) -> tuple[int, bool]:
    """Quads converted at a time, and whether that is the whole run."""
    if 0 < whole <= 4:
        return whole, True
    return (next(u for u in (4, 3, 2, 1) if whole % u == 0) if whole else 0), False


def _as_int8_sums(weights: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Weights as a sum of int8 arrays: as many as their range needs (one, unless a filter zero point widened it)."""
    parts = []
    while True:
        part = np.clip(weights, -128, 127)
        parts.append(part)
        weights = weights - part
        if not weights.any():
            return parts


def _lower(matrix: Matrix, pixels: int, way_of: Callable[[int], _Way], macs: int) -> Lowered:
    """Small weights are WORDS, with the other form as the alternative; larger ones the other way round. Where a single
    pixel has a buffer, reading the input itself is an alternative too."""
    small = matrix.weights.size <= WORDS_LIMIT
    packed = [pack(matrix, words) for words in (small, not small)]
    made = [_lower_packed(matrix, weights, pixels, way_of, macs) for weights in packed]
    if _reads_in_place(made[0], matrix):
        made += [_lower_packed(matrix, weights, pixels, way_of, macs, direct=True) for weights in packed]
    made += _compact(matrix, packed[small], pixels, way_of, macs)
    made += _unpacked(matrix, pixels, way_of, macs)
    return replace(made[0], alternatives=tuple(made[1:]))


def _compact(
    matrix: Matrix, weights: PackedWeights, pixels: int, way_of: Callable[[int], _Way], macs: int
) -> list[Lowered]:
    """Kernels without anything unrolled, one pixel at a time: with the records as they are, and in forms that more
    layers share."""
    records, way = weights.records, partial(_rolled_way, way_of)
    forms = [records] if records.form.tie or records.form.exact else [records, _with_tie(records)]
    return [
        _lower_packed(matrix, replace(weights, records=form), pixels, way, macs, compact=True, alike=alike)
        for form in forms
        for alike in sorted({False, records.alike})
    ]


def _unpacked(matrix: Matrix, pixels: int, way_of: Callable[[int], _Way], macs: int) -> list[Lowered]:
    """As `_compact`, with records that are packed in flash: in the shortest form that is exact."""
    flat = matrix.weights.reshape(matrix.channels, -1)
    zero_point = matrix.input_zero_point
    short = packed_records.shortened(flat, matrix.bias, zero_point, matrix.requantization, folded=zero_point)
    if short is None:
        return []
    r = short.requantization
    weights = np.where(short.constant[:, None, None], 0, matrix.weights).astype(matrix.weights.dtype)
    matrix = replace(matrix, weights=weights, bias=short.bias, requantization=r)
    packed = pack(matrix, words=False, joins=False, settles=False)
    records = packed.records
    if records.form.exact:
        return []
    forms = [records]
    if not records.form.tie and r.minimum >= r.zero_point and records.form.shift is not None:
        forms.append(_with_tie(records, np.int64(1) << records.scales - 1))
    made = [_unpacked_form(matrix, replace(packed, records=form), pixels, way_of, macs) for form in forms]
    return [one for one in made if one is not None]


def _unpacked_form(
    matrix: Matrix, weights: PackedWeights, pixels: int, way_of: Callable[[int], _Way], macs: int
) -> Lowered | None:
    words = _words_of(weights.records.form)
    packed = packed_records.pack(weights.records.words, words)
    way = partial(_rolled_way, way_of)
    lowered = _lower_packed(matrix, weights, pixels, way, macs, compact=True, alike=False)
    kernel = lowered.calls[0].kernel
    assert isinstance(kernel, PatchMatrix)
    return None if packed is None or kernel.overlap else unpacked(lowered, "records", packed, words)


def _words_of(form: Requantizer) -> tuple[Word, ...]:
    """What the fields of records are."""
    common = form.shift is not None
    kinds = {
        "bias": Word.BIAS,
        "multiplier": Word.MULTIPLIER,
        "offset": Word.ROUNDING,
        "scale": Word.EXPONENT if common else Word.SHARED,
        "shift": Word.EXPONENT,
        "tie": Word.TIE if common else Word.SHARED,
    }
    return tuple(kinds.get(field, Word.SHARED) for field in form.fields)


def _with_tie(records: Records, ties: int | NDArray[np.int64] = 0) -> Records:
    """The same in a form that corrects ties, of which there need not be any."""
    form = replace(records.form, tie=True)
    return Records(form, np.insert(records.words, form.fields.index("tie"), ties, 1), records.scales)


def _rolled_way(way_of: Callable[[int], _Way], at_once: int) -> _Way:
    return _rolled(way_of(at_once))


def _rolled(way: _Way) -> _Way:
    """The same a quad at a time."""
    gather = way.gather
    copy = min(gather.copy_bytes, 4)
    return replace(way, gather=replace(gather, unroll=min(gather.unroll, 1), straight=False, copy_bytes=copy))


def _reads_in_place(lowered: Lowered, matrix: Matrix) -> bool:
    """Whether the kernel gathers one pixel into a buffer and need not."""
    kernel = lowered.calls[0].kernel
    assert isinstance(kernel, PatchMatrix)
    flat = kernel.gather.source is Source.FLAT and kernel.pixels_at_once == 1
    return flat and lowered.scratch_bytes > 0 and matrix.runs == 1 and matrix.run % 4 == 0


def _lower_packed(
    matrix: Matrix,
    weights: PackedWeights,
    pixels: int,
    way_of: Callable[[int], _Way],
    macs: int,
    direct: bool = False,
    compact: bool = False,
    alike: bool = True,
) -> Lowered:
    """`direct`: reads the input itself. `compact`: nothing is unrolled. `alike`: records that are alike are one."""
    records, quads = weights.records, weights.data.shape[1]
    alike = alike and records.alike
    block, at_once = _block(matrix.channels, 1 if compact else pixels, quads)
    starts = _starts(matrix.channels, block)
    way = way_of(at_once)
    direct = direct or (
        not compact and way.gather.source is Source.FLAT and at_once == 1 and _is_direct(matrix, len(starts))
    )
    if direct:
        overlap = of_groups(_line(matrix, pixels), 1, reads_first=len(starts) == 1)
        way = _Way(Gather(Source.DIRECT, 1, 0), (pixels, matrix.channels, matrix.run), 0, overlap)
    quad = weights.form.quad_instructions(block, at_once)
    # Reading the input itself, the depth cannot be padded.
    unrolls = [1] if compact else [u for u in _UNROLLS if not direct or quads % u == 0]
    unroll = min(unrolls, key=lambda u: -(-quads // u) * (quad * u + 4))
    padded = -(-quads // unroll) * unroll
    members = starts[:, None] + np.arange(block)
    packed = weights.padded(padded)[members].transpose(0, 2, 1, 3)
    ragged = matrix.channels % block != 0
    fields = records.take(members)
    if alike:
        fields = fields[:, :, :1]
    rows = fields.reshape(len(starts), fields.shape[1] * fields.shape[2])
    if ragged:
        rows = np.concatenate([rows, np.append(np.diff(starts), 0)[:, None]], 1)

    once = unroll == padded and not compact
    gather = replace(way.gather, joined=weights.form is WeightForm.JOINED)
    kernel = PatchMatrix(gather, block, at_once, unroll, weights.form, records.form, ragged, once, alike, compact)
    buffer = -(-way.scratch // 8) * 8
    buffer_bytes = kernel.quad_step * padded
    table = _words(rows)
    arguments: tuple[Argument, ...] = (
        INPUT,
        OUTPUT,
        Constant(packed.tobytes()),
        table,
        len(table.data),
        Place(Role.SCRATCH, 0, 0 if once else buffer),
        buffer_bytes,
        *((_words(records.words[0]),) if alike else ()),
        *way.sizes,
        *way.ring,
    )
    scratch = way.scratch if once or direct else buffer + buffer_bytes
    gathering = 0 if direct else _GATHER * at_once * padded
    converting = _CONVERT * padded if direct else 0
    per_block = converting + quad * padded + 4 * (padded // unroll) + _BLOCK + _OUTPUT * block * at_once
    instructions = -(-pixels // at_once) * (gathering + len(starts) * per_block)
    call, overlaps = KernelCall(kernel, arguments), [way.overlap]
    if way.gather.source is Source.FLAT and pixels == 1 and scratch and matrix.runs == 1 and not matrix.run % 4:
        # The only pixel spreads into its buffer, quad by quad.
        overlaps.append(replace(elementwise(matrix.run // 4, 4, kernel.quad_step), scratch=True))
    lowered = Lowered((call,), scratch, macs, instructions=round(instructions), overlaps=tuple(overlaps))
    return as_compact(lowered) if compact else lowered


def _words(values: NDArray[np.int64]) -> Constant:
    return Constant((values & 0xFFFFFFFF).astype("<u4").tobytes())


def _block(channels: int, pixels: int, quads: int) -> tuple[int, int]:
    """Channels x pixels in registers: 2 x 3 has the best ratio of SMLADs to loads that fits; 4 x 1 for one pixel, or
    where the buffer of three would be large."""
    if pixels < 3 or 8 * 3 * quads > _BUFFER_LIMIT:
        return 4 if channels >= 4 else min(channels, 2), 1
    return min(channels, 2), 3


def _starts(channels: int, block: int) -> NDArray[np.int64]:
    """First channels of the blocks; the last block overlaps the one before it where channels do not divide."""
    return np.minimum(np.arange(0, channels, block), channels - block)
