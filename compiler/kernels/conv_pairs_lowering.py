# SPDX-License-Identifier: Apache-2.0
"""Convolutions to calls of `ConvPairs`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from compiler.kernels.conv_pairs_scalar import ConvPairs, pack_stream
from compiler.kernels.conv_product_scalar import (
    Blocking,
    BlockShape,
    Candidate,
    Product,
    block_starts,
    channel_entries,
    geometry,
)
from compiler.kernels.conv_rows_scalar import Copy
from compiler.kernels.kernel import Constant, KernelCall, Lowered, Place, Role
from compiler.kernels.overlap import from_ring
from compiler.kernels.problems import Window
from compiler.kernels.scalar_core import ScalarCore

SCRATCH_LEAST, SCRATCH_MOST = 2048, 5200
"""Bytes. Between them a sixth of the input and output, so that small models stay small."""
SCRATCH_LIMIT = 20000
"""Bytes that a layer takes at most, where the arena has room."""


def candidates(core: ScalarCore, blocking: Blocking, product: Product) -> Iterator[Candidate]:
    """Lowerings with two taps a multiplication: for each block shape, and for each split of a pointwise layer's
    pixels into rows (a longer row expands its weights less often, and takes more scratch)."""
    if product.filter_zero_point or product.window.input_channels % 2:
        return
    for channels in sorted({shape.channels for shape in blocking.pairs if shape.channels <= len(product.weights)}):
        starts = block_starts(len(product.weights), channels)
        streams = [pack_stream(product.weights[start : start + channels]) for start in starts]
        for w in _windows(product.window):
            for shape in blocking.pairs:
                plan = _Plan(shape, w, streams)
                reach = (shape.pixels - 1) * 2 * w.stride_width * w.input_channels
                if shape.channels != channels or shape.pixels > w.output_width or reach > blocking.reach:
                    continue
                if plan.scratch <= SCRATCH_LIMIT:
                    yield _candidate(core, blocking, product, plan)


@dataclass(frozen=True, eq=False)
class _Plan:
    """A block shape, the window with its pixels in rows, and the blocks' streams with their expanded bytes."""

    shape: BlockShape
    window: Window
    streams: list[tuple[bytes, int]]

    @property
    def segments(self) -> int:
        w = self.window
        return w.kernel_height * (w.kernel_width if w.dilation_width > 1 else 1)

    @property
    def pointers(self) -> int:
        return 4 * self.segments if self.segments > 1 else 0

    @property
    def expanded(self) -> int:
        return max(size for _, size in self.streams)

    @property
    def scratch(self) -> int:
        """Segment pointers, a block's stream, the ring; a last pair of one tap may reach behind that."""
        w = self.window
        span = (w.kernel_height - 1) * w.dilation_height + 1
        ring = span * (w.pad_left + w.input_width + w.pad_right) * w.input_channels * 2
        return self.pointers + self.expanded + ring + 4

    def cost(self, blocking: Blocking) -> float:
        shape, w = self.shape, self.window
        groups = -(-w.output_width // shape.pixels)
        per_window = 8 + 8 * shape.channels
        windows = sum((size - 4 * self.segments) // per_window for _, size in self.streams)
        block = blocking.segment * self.segments + shape.block + shape.channels * shape.pixels * shape.output
        row = groups * (windows * (shape.step + shape.iteration) + len(self.streams) * block)
        row += windows * (10 + 10 * shape.channels)
        # Rows are copied pair by pair rather than word by word.
        return w.output_height * row + w.input_height * w.input_width * w.input_channels * 4.5


def _candidate(core: ScalarCore, blocking: Blocking, product: Product, plan: _Plan) -> Candidate:
    cost, modest = plan.cost(blocking), plan.scratch <= _allowance(plan.window)
    return Candidate(cost, lambda: _lower(core, product, plan), plan.scratch, modest)


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


def _lower(core: ScalarCore, product: Product, plan: _Plan) -> Lowered:
    shape, w = plan.shape, plan.window
    channels, segments, _ = product.weights.shape
    table = product.table(core, 0)
    starts = block_starts(channels, shape.channels)
    kernel = ConvPairs(
        core=core,
        form=table.form,
        channels=shape.channels,
        pixels=shape.pixels,
        copy=Copy.PAIRS,
        single=segments == 1,
        shared=table.shared,
        pitch=2 * w.stride_width * w.input_channels if shape.pixels > 1 else 0,
    )
    values = geometry(w, kernel, product.input_zero_point * 0x10001, segments, plan.pointers + plan.expanded)
    values |= channel_entries(table, starts, shape.channels)
    values |= {
        "weights": Constant(b"".join(stream for stream, _ in plan.streams)),
        "segment_bytes": 0,
        "expanded": Place(Role.SCRATCH, offset=plan.pointers),
    }
    call = KernelCall(kernel, tuple(values[name] for name in ConvPairs.parameters))
    return Lowered((call,), plan.scratch, product.macs, overlaps=(from_ring(w),))
