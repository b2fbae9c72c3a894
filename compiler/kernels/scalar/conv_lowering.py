# SPDX-License-Identifier: Apache-2.0
"""Convolutions and fully connected layers to calls of `ConvScalar`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from compiler.kernels import packed_records
from compiler.kernels.compact import Compact, compact
from compiler.kernels.kernel import Constant, KernelCall, Lowered, Place, Role
from compiler.kernels.overlap import from_ring, of_groups
from compiler.kernels.packed_records import Word
from compiler.kernels.packing import Int64Array
from compiler.kernels.portable.unpack import unpacked
from compiler.kernels.problems import Window
from compiler.kernels.scalar.conv_product import (
    Blocking,
    BlockShape,
    Candidate,
    Product,
    block_starts,
    channel_entries,
    geometry,
)
from compiler.kernels.scalar.conv_ring import ConvScalar
from compiler.kernels.scalar.conv_rows import Copy
from compiler.kernels.scalar.core import ScalarCore
from compiler.kernels.scalar.requantize import Rounding

_WORDS = (Word.BIAS, Word.MULTIPLIER, Word.ROUNDING, Word.EXPONENT)


@dataclass(frozen=True)
class _Choice:
    shape: BlockShape
    unroll: int
    gather: int
    cost: float


def candidate(core: ScalarCore, blocking: Blocking, product: Product) -> Candidate:
    """The best lowering with one multiplication a tap; every layer has one."""
    w, ring = _walked(core, product)
    _, segments, length = product.weights.shape
    choice = _choose(_candidates(blocking, w, segments, length, ring))
    return Candidate(choice.cost, lambda lookup: _lower(core, product, w, choice, ring, lookup), product.weights.size)


def compact_lowerings(core: ScalarCore, blocking: Blocking, product: Product) -> list[Lowered]:
    """Kernels without anything unrolled, one pixel at a time: in the form that suffices, and with ties; and those with
    records that are packed in flash."""
    w, ring = _walked(core, product)
    _, segments, length = product.weights.shape
    rolled = [
        choice
        for choice in _candidates(blocking, w, segments, length, ring)
        if (choice.shape.pixels, choice.unroll, choice.gather) == (1, 1, 0) and choice.shape.channels <= 4
    ]
    choice = _choose(rolled)
    made = [_lower(core, product, w, choice, ring, False, ties, small=True) for ties in (False, True)]
    kept = made if made[0].calls != made[1].calls else made[:1]
    plain = [compact(replace(one, instructions=round(choice.cost))) for one in kept]
    return [*plain, *_unpacked(core, product, w, choice, ring)]


def _unpacked(core: ScalarCore, product: Product, w: Window, choice: _Choice, ring: bool) -> list[Compact]:
    short, block = product.shortened(128 * core.unsigned_inputs), choice.shape.channels
    if short is None or len(product.bias) % block:
        return []
    table = short.table(core, 128 * core.unsigned_inputs, False, packs=True)
    packed = packed_records.pack(table.words, _WORDS) if table.form.rounding.is_one_product else None
    if packed is None:
        return []
    made = [_lower(core, short, w, choice, ring, False, ties, packs=True, small=True) for ties in (False, True)]
    kept = made if made[0].calls != made[1].calls else made[:1]
    costed = [replace(one, instructions=round(choice.cost)) for one in kept]
    forms = [unpacked(one, "blocks", packed, _WORDS, block) for one in costed]
    return [form for form in forms if form is not None]


def _walked(core: ScalarCore, product: Product) -> tuple[Window, bool]:
    """The window, pixels in one row where that is the same, and whether rows go through a ring."""
    w = product.window
    if w.is_pointwise and not core.unsigned_inputs:
        pixels = w.input_height * w.input_width
        w = replace(w, input_height=1, input_width=pixels, output_height=1, output_width=pixels)
    return w, core.unsigned_inputs or product.padded


def _lower(
    core: ScalarCore,
    product: Product,
    w: Window,
    choice: _Choice,
    ring: bool,
    lookup: bool,
    ties: bool = False,
    packs: bool = False,
    small: bool = False,
) -> Lowered:
    """`ties`: corrects ties, of which there need not be any. `packs`: as for `Product.table`. `small`: with a lean
    table, unless channels share what it begins with."""
    channels, segments, length = product.weights.shape
    shape, unroll = choice.shape, choice.unroll
    rows = product.weights.reshape(channels, 1, -1) if choice.gather else product.weights
    padded = -(-rows.shape[2] // unroll) * unroll
    weights = np.full((*rows.shape[:2], padded), product.filter_zero_point, np.int64)
    weights[:, :, : rows.shape[2]] = rows
    table = product.table(core, 128 * core.unsigned_inputs, lookup, packs)
    starts = block_starts(channels, shape.channels)
    sum_factor = product.filter_zero_point + 128 * core.unsigned_weights
    if segments == 1 or shape.pixels == 1:
        pitch = 0
    else:
        pitch = padded if choice.gather else w.stride_width * w.input_channels
    form = table.form
    if ties and form.rounding is Rounding.FAST:
        form = replace(form, rounding=Rounding.TIES)
    kernel = ConvScalar(
        core=core,
        form=form,
        channels=shape.channels,
        pixels=shape.pixels,
        copy=Copy.NONE if not ring else Copy.BYTES if w.input_width * w.input_channels % 4 else Copy.WORDS,
        single=segments == 1,
        shared=table.shared,
        unroll=unroll,
        gather=choice.gather,
        sums=sum_factor != 0,
        pitch=pitch,
        small=small and not table.shared,
    )
    pointers = 0 if kernel.single else 4 * segments
    gathered = -(-shape.pixels * padded // 4) * 4 if choice.gather else 0
    fill = ((product.input_zero_point + 128 * core.unsigned_inputs) & 0xFF) * 0x01010101
    values = geometry(w, kernel, fill, segments, pointers + gathered)
    values |= channel_entries(table, starts, shape.channels)
    values |= {
        "weights": _packed_weights(core, weights, starts, shape.channels),
        "segment_bytes": length if choice.gather else padded,
        "product_bytes": padded,
        "gathered": Place(Role.SCRATCH, offset=pointers) if choice.gather else 0,
        "sum_factor": sum_factor,
        "squares": core.squares_entry,
    }
    # The last window of the last row may read to the end of its padded segment.
    scratch = pointers + gathered + (values["ring_bytes"] + unroll if ring else 0)  # type: ignore[operator]
    call = KernelCall(kernel, tuple(values[name] for name in ConvScalar.parameters))
    if ring:
        overlap = from_ring(w)
    else:
        reads_first = kernel.gather > 0 or len(starts) == 1
        overlap = of_groups(w, shape.pixels, reads_first, second_repeats=True)
    return Lowered((call,), int(scratch), product.macs, overlaps=(overlap,))


def _choose(candidates: list[_Choice]) -> _Choice:
    """The one with the fewest instructions by estimate."""
    return min(candidates, key=lambda c: c.cost)


def _candidates(blocking: Blocking, w: Window, segments: int, length: int, ring: bool) -> list[_Choice]:
    """Block shapes, unrolling and gathering."""

    def choice(shape: BlockShape, unroll: int, gather: bool) -> _Choice:
        blocks = -(-w.output_channels // shape.channels)
        groups = w.output_height * -(-w.output_width // shape.pixels)
        rows, row = (1, segments * length) if gather else (segments, length)
        inner = rows * (-(-row // unroll) * (unroll * shape.step + shape.iteration) + blocking.segment * (rows > 1))
        block = inner + shape.block + shape.channels * shape.pixels * shape.output
        copies = shape.pixels * segments * (12 + length * blocking.copy) if gather else 0
        copied = next(u for u in (4, 3, 2, 1) if length % u == 0) if gather else 0
        return _Choice(shape, unroll, copied, groups * (blocks * block + copies))

    return [
        choice(shape, unroll, gather)
        for shape in blocking.shapes
        if shape.channels <= w.output_channels and shape.pixels <= w.output_width
        for gather in ((False, True) if segments > 1 else (False,))
        for unroll in shape.unrolls
        if ring or gather or length % unroll == 0
    ]


def _packed_weights(core: ScalarCore, weights: Int64Array, starts: list[int], block: int) -> Constant:
    """int8 or biased uint8 [block, segment, byte, channel]."""
    blocks = np.stack([weights[start : start + block].transpose(1, 2, 0) for start in starts])
    return Constant(((blocks + 128 * core.unsigned_weights) & 0xFF).astype(np.uint8).tobytes())
