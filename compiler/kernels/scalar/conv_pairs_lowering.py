# SPDX-License-Identifier: Apache-2.0
"""Convolutions to calls of `ConvPairs`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from compiler.kernels.kernel import Constant, KernelCall, Lowered, Place, Role
from compiler.kernels.overlap import from_ring
from compiler.kernels.packing import Int64Array
from compiler.kernels.problems import Window
from compiler.kernels.scalar.conv_pairs import ConvPairs
from compiler.kernels.scalar.conv_product import (
    Blocking,
    BlockShape,
    Candidate,
    Product,
    block_starts,
    channel_entries,
    geometry,
)
from compiler.kernels.scalar.conv_rows import Copy
from compiler.kernels.scalar.core import ScalarCore
from compiler.kernels.scalar.pair_windows import Packing, pack_block

SCRATCH_LEAST, SCRATCH_MOST = 2048, 5200
"""Bytes. Between them a sixth of the input and output, so that small models stay small."""
SCRATCH_LIMIT = 20000
"""Bytes that a layer takes at most, where the arena has room."""
OFFSET_LIMIT = 1 << 16
"""Offsets of inputs are halfwords; those of copies are below SCRATCH_LIMIT."""


def candidates(core: ScalarCore, blocking: Blocking, product: Product) -> Iterator[Candidate]:
    """Lowerings with two taps a multiplication: for each block shape, for each split of a pointwise layer's pixels
    into rows (a longer row expands its weights less often, and takes more scratch), with weights expanded in flash
    and not, with inputs copied as pairs or, one pixel at a time, not."""
    if product.filter_zero_point or not _aligned(product.window):
        return
    outputs, segments, _ = product.weights.shape
    packed: dict[tuple[int, int, bool], list[Packing]] = {}
    for shape in blocking.pairs:
        windows = [w for w in _windows(product.window) if _suits(blocking, shape, w)]
        if shape.channels > outputs or not windows:
            continue
        for mirrored in (False, True) if segments > 1 else (False,):
            key = shape.channels, shape.depth, mirrored
            if key not in packed:
                starts = block_starts(outputs, shape.channels)
                first = _segment_starts(product.window, segments) if mirrored else None
                packed[key] = [pack_block(product.weights[s : s + shape.channels], shape.depth, first) for s in starts]
            for w in windows:
                for stored, copies in ((False, True), (True, True), (True, False)):
                    plan = _Plan(shape, w, packed[key], stored, copies, mirrored)
                    direct = shape.pixels == 1 and w.is_pointwise and w.input_channels <= OFFSET_LIMIT
                    if (copies or (direct and w.input_channels % 2 == 0)) and plan.scratch <= SCRATCH_LIMIT:
                        yield _candidate(core, blocking, product, plan)


def _aligned(w: Window) -> bool:
    """All windows of a row begin with the first value of a pair, and so do their segments."""
    return (
        w.stride_width * w.input_channels % 2 == 0
        and (w.input_channels % 2 == 0 or w.dilation_width == 1)
        and w.input_width * w.input_channels >= 2 + w.pad_left * w.input_channels % 2
    )


def _segment_starts(w: Window, segments: int) -> Int64Array:
    """The first values of the segments of a window in rows one behind the other."""
    columns = segments // w.kernel_height
    row = w.dilation_height * -(-_row_values(w) // 2) * 2
    return np.add.outer(
        np.arange(w.kernel_height) * row, np.arange(columns) * w.dilation_width * w.input_channels
    ).ravel()


def _row_values(w: Window) -> int:
    return (w.pad_left + w.input_width + w.pad_right) * w.input_channels


def _suits(blocking: Blocking, shape: BlockShape, w: Window) -> bool:
    """Whether rows hold a block, whose pixels are in reach of constant offsets."""
    return shape.pixels <= w.output_width and (
        (shape.pixels - 1) * 2 * w.stride_width * w.input_channels <= blocking.reach
    )


@dataclass(frozen=True, eq=False)
class _Plan:
    """A block shape, the window with its pixels in rows, the blocks' windows, whether they are stored expanded,
    whether inputs are copied as pairs, and whether into a mirrored ring."""

    shape: BlockShape
    window: Window
    blocks: list[Packing]
    stored: bool
    copies: bool
    mirrored: bool

    @property
    def segments(self) -> int:
        w = self.window
        if self.mirrored:
            return 1
        return w.kernel_height * (w.kernel_width if w.dilation_width > 1 else 1)

    @property
    def pointers(self) -> int:
        return 4 * self.segments if self.segments > 1 else 0

    @property
    def expanded(self) -> int:
        return 0 if self.stored else max(block.expanded for block in self.blocks)

    @property
    def flash(self) -> int:
        return sum(block.stream_bytes(self.stored) for block in self.blocks)

    @property
    def scratch(self) -> int:
        """Segment pointers, a block's stream, the ring; a last pair of one tap may reach behind that."""
        w = self.window
        if not self.copies:
            return 0
        span = (w.kernel_height - 1) * w.dilation_height + 1
        ring = span * -(-_row_values(w) // 2) * 4
        return self.pointers + self.expanded + ring * (1 + self.mirrored) + 4

    def cost(self, blocking: Blocking) -> float:
        shape, w = self.shape, self.window
        groups = -(-w.output_width // shape.pixels)
        windows = sum(block.windows for block in self.blocks)
        block = blocking.segment * self.segments + shape.block + shape.channels * shape.pixels * shape.output
        row = groups * (windows * (shape.step + shape.iteration) + len(self.blocks) * block)
        row += 0 if self.stored else windows * shape.depth * (5 + 5 * shape.channels)
        if not self.copies:
            return w.output_height * (row + groups * windows * shape.depth * 3)
        # Rows are copied pair by pair rather than word by word.
        return w.output_height * row + w.input_height * w.input_width * w.input_channels * (4.5 + self.mirrored)


def _candidate(core: ScalarCore, blocking: Blocking, product: Product, plan: _Plan) -> Candidate:
    cost, modest = plan.cost(blocking), plan.scratch <= _allowance(plan.window)
    return Candidate(cost, lambda lookup: _lower(core, product, plan, lookup), plan.flash, plan.scratch, modest)


def _windows(w: Window) -> list[Window]:
    if not w.is_pointwise:
        return [w]
    pixels = w.input_height * w.input_width
    rows = [n for n in range(1, pixels + 1) if pixels % n == 0]
    return [
        replace(w, input_height=n, input_width=pixels // n, output_height=n, output_width=pixels // n) for n in rows
    ]


def _allowance(w: Window) -> int:
    """The scratch bytes that a layer may take."""
    source = w.input_height * w.input_width * w.input_channels
    output = w.output_height * w.output_width * w.output_channels
    return min(max((source + output) // 6, SCRATCH_LEAST), SCRATCH_MOST)


def _lower(core: ScalarCore, product: Product, plan: _Plan, lookup: bool) -> Lowered:
    shape, w = plan.shape, plan.window
    row = w.input_width * w.input_channels
    shifted = w.pad_left * w.input_channels % 2
    table = product.table(core, 0, lookup)
    starts = block_starts(len(product.weights), shape.channels)
    kernel = ConvPairs(
        core=core,
        form=table.form,
        channels=shape.channels,
        pixels=shape.pixels,
        copy=Copy.PAIRS if plan.copies else Copy.NONE,
        single=plan.segments == 1,
        shared=table.shared,
        depth=shape.depth,
        stored=plan.stored,
        mirrored=plan.mirrored,
        edges=(shifted == 1, (row - shifted) % 2 == 1),
        pitch=2 * w.stride_width * w.input_channels if shape.pixels > 1 else 0,
    )
    unit = 2 if plan.copies else 1
    values = geometry(w, kernel, product.input_zero_point * 0x10001, plan.segments, plan.pointers + plan.expanded)
    values |= channel_entries(table, starts, shape.channels)
    values |= {
        "weights": Constant(b"".join(block.stream(plan.stored, unit) for block in plan.blocks)),
        "segment_bytes": 0,
        "expanded": 0 if plan.stored else Place(Role.SCRATCH, offset=plan.pointers),
    }
    call = KernelCall(kernel, tuple(values[name] for name in ConvPairs.parameters))
    return Lowered((call,), plan.scratch, product.macs, overlaps=(from_ring(w),) if plan.copies else ())
