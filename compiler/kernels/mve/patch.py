# SPDX-License-Identifier: Apache-2.0
"""Helium convolution by patches: each pixel's window is gathered to whole vectors, then a matrix product.

For few input channels (first layers), depths that are no multiple of 16, dilation: every geometry works. Several
output rows share a product where that fills groups of four pixels better.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from compiler.codegen.builder import Value
from compiler.kernels.kernel import (
    OUTPUT,
    CompileOptions,
    Constant,
    Kernel,
    KernelCall,
    KernelFunction,
    Lowered,
    Place,
    Role,
)
from compiler.kernels.mve.products import (
    OUTPUT_PARAMETERS,
    PIXELS,
    ProductShape,
    channel_records,
    emit_products,
    products_cost,
)
from compiler.kernels.mve.ring import RING_PARAMETERS, RingShape, RowRing, ring_arguments, ring_bytes
from compiler.kernels.mve.vector import CHUNK, RequantizeMode, load_chunk
from compiler.kernels.overlap import from_ring
from compiler.kernels.packing import folded_bias, pad_depth
from compiler.kernels.problems import Conv2D, Window

_PATCH_BYTES = 8192
"""Scratch that sharing a product between output rows may take, and never more than the output has bytes."""
_UNROLLED_COPY = 8
_GROUPS = (4,)


@dataclass(frozen=True)
class PatchConvMve(Kernel):
    """`segment` bytes are gathered at a time, `columns` of them (1 where the window's columns lie together) `pitch`
    bytes apart, in each row of the window; `step` bytes from window to window."""

    ring: RingShape
    segment: int
    columns: int
    pitch: int
    step: int
    product: ProductShape

    parameters = (
        *RING_PARAMETERS,
        "patches",
        "output_width",
        "rows",
        "weights",
        "records",
        "groups",
        "pixels",
        *OUTPUT_PARAMETERS,
    )
    options = CompileOptions(optimize=True, flags=("-enable-misched=false",))

    @property
    def name(self) -> str:
        gather = f"{self.segment}x{self.columns}p{self.pitch}t{self.step}"
        return f"patch_conv_mve_{self.ring.name}_{gather}_{self.product.name}"

    def build(self, f: KernelFunction) -> None:
        ring = RowRing(f, self.ring)
        patches, width = f.pointer("patches"), f.integer("output_width")
        rows, pixels = f.integer("rows"), f.integer("pixels")
        output_step = f.mul(pixels, f.integer("channels"))

        def gather_row(_: Value, carried: list[Value]) -> list[Value]:
            slot, row, patch = carried
            slot, row = ring.advance(slot, row)
            (patch, _x) = f.loop(width, lambda _, c: self._gather(f, ring.rows(slot), c[0], c[1]), [patch, f.const(0)])
            return [slot, ring.skip(row), patch]

        def batch(_: Value, carried: list[Value]) -> list[Value]:
            slot, row, output = carried
            slot, row, _patch = f.loop(rows, gather_row, [slot, row, patches])
            emit_products(
                f,
                self.product,
                patches,
                f.pointer("weights"),
                f.pointer("records"),
                output,
                f.integer("groups"),
                pixels,
            )
            return [slot, row, f.offset(output, output_step)]

        slot, row = ring.start()
        f.loop(f.integer("output_height"), batch, [slot, row, f.pointer("output")])

    def _gather(self, f: KernelFunction, rows: list[Value], patch: Value, x: Value) -> list[Value]:
        """Copies one window. Each piece is rounded up to whole vectors; the next piece overwrites the excess, and
        behind the last one it meets zero weights or the next patch."""
        at = 0
        for row in rows:
            for column in range(self.columns):
                self._copy(f, f.offset(f.offset(row, x), column * self.pitch), f.offset(patch, at))
                at += self.segment
        return [f.offset(patch, self.product.stride), f.add(x, self.step)]

    def _copy(self, f: KernelFunction, source: Value, target: Value) -> None:
        chunks = -(-self.segment // CHUNK)
        if chunks <= _UNROLLED_COPY:
            for k in range(chunks):
                f.store(load_chunk(f, source, CHUNK * k), target, CHUNK * k, align=1)
            return

        def body(_: Value, carried: list[Value]) -> list[Value]:
            source, target = carried
            f.store(load_chunk(f, source), target, align=1)
            return [f.offset(source, CHUNK), f.offset(target, CHUNK)]

        f.loop(chunks, body, [source, target])


def lower(layer: Conv2D) -> Lowered:
    """Any convolution. Reads nothing outside the input: only the scratch copies are read in whole vectors.

    The alternatives share a product between fewer output rows.
    """
    w = layer.window
    weights = pad_depth(layer.weights.reshape(w.output_channels, -1), CHUNK)
    cost = _rows_together(w, weights.shape[1])
    most = next(rows for rows in cost if cost[rows] <= 1.03 * min(cost.values()))
    fewer = [r for r in cost if r < most and cost[r] < min((cost[q] for q in cost if q < r), default=1 << 62)]
    made = (replace(_lower(layer, weights, rows), instructions=cost[rows]) for rows in (most, *fewer))
    return replace(next(made), alternatives=tuple(made))


def _lower(layer: Conv2D, weights: NDArray[np.int8], rows: int) -> Lowered:
    """`rows` output rows at a time; `weights` [output channels, depth in whole chunks]."""
    w, r = layer.window, layer.requantization
    mode = RequantizeMode.of(r)
    flat = layer.weights.reshape(w.output_channels, -1)
    stride = weights.shape[1]
    pixels = rows * w.output_width
    together = w.dilation_width == 1
    product = ProductShape.of(stride, pixels, w.output_channels, mode, _GROUPS)
    kernel = PatchConvMve(
        RingShape.of(w),
        w.input_channels * (w.kernel_width if together else 1),
        1 if together else w.kernel_width,
        0 if together else w.dilation_width * w.input_channels,
        w.stride_width * w.input_channels,
        product,
    )
    ring = ring_arguments(w, layer.input_zero_point)
    ring_size = ring_bytes(w)
    bias = folded_bias(flat, layer.bias, layer.input_zero_point)
    call = KernelCall(
        kernel,
        (
            *ring[:-1],
            w.output_height // rows,
            Place(Role.SCRATCH, 0, ring_size),
            w.output_width,
            rows,
            Constant(weights.tobytes(), CHUNK),
            Constant(channel_records(bias, r, mode).tobytes()),
            *product.counts(pixels),
            OUTPUT,
            w.output_channels,
            r.zero_point,
            r.minimum,
            r.maximum,
        ),
    )
    scratch = ring_size + max(pixels, PIXELS) * stride + CHUNK
    return Lowered((call,), scratch, layer.macs, overlaps=(from_ring(w, rows),))


def _rows_together(w: Window, patch_bytes: int) -> dict[int, int]:
    """How many output rows (divisors of all) one product may take, with the instructions of all products."""
    chunks = patch_bytes // CHUNK
    most = min(_PATCH_BYTES, w.output_height * w.output_width * w.output_channels)
    allowed = [
        rows
        for rows in range(1, w.output_height + 1)
        if w.output_height % rows == 0 and (rows == 1 or rows * w.output_width * patch_bytes <= most)
    ]
    return {
        rows: products_cost(chunks, rows * w.output_width, w.output_channels, _GROUPS) * (w.output_height // rows)
        for rows in allowed
    }
