# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution of any geometry: one output at a time, over the input or a ring of padded rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from compiler.codegen.builder import I32, PTR, Value
from compiler.kernels.kernel import (
    INPUT,
    OUTPUT,
    Argument,
    CompileOptions,
    Constant,
    Kernel,
    KernelCall,
    KernelFunction,
    Lowered,
)
from compiler.kernels.packing import accumulator_bounds, folded_bias
from compiler.kernels.problems import DepthwiseConv2D
from compiler.kernels.requantize_dsp import Requantizer, plan
from compiler.kernels.row_ring_dsp import RING_PARAMETERS, RingPlan, RowRing

_PARAMETERS = (
    "input",
    "output",
    "weights",
    "records",
    "rows",
    "columns",
    "column_step",
    "rows_step",
    "channels",
    "multiplier",
    "kernel_rows",
    "kernel_columns",
    "row_step",
    "tap_step",
)


@dataclass(frozen=True)
class DepthwiseGeneral(Kernel):
    """`copy_bytes` > 0: a ring of rows, copied in such steps; 0: windows of the input itself (no padding)."""

    copy_bytes: int
    requantizer: Requantizer

    options: ClassVar[CompileOptions] = CompileOptions(optimize=True)

    @property
    def parameters(self) -> tuple[str, ...]:  # type: ignore[override]
        return _PARAMETERS + (("first_rows", "rows_advance", *RING_PARAMETERS) if self.copy_bytes else ())

    @property
    def name(self) -> str:
        return f"depthwise_dsp_r{self.copy_bytes}_{self.requantizer.name}"

    def build(self, f: KernelFunction) -> None:
        ring = RowRing(f, self.copy_bytes) if self.copy_bytes else None
        output, left = f.alloca(PTR), f.alloca(I32)
        f.store(f.pointer("output"), output)
        f.store(f.integer("rows"), left)
        top = f.pointer("input")
        if ring:
            ring.start()
            ring.load(f.integer("first_rows"))
            top = f.offset(f.pointer("ring"), f.integer("ring_align"))

        def row(_: Value, carried: list[Value]) -> list[Value]:
            f.loop(f.integer("columns"), lambda _, c: self._pixel(f, ring, output, c[0]), carried)
            following = f.offset(carried[0], f.integer("rows_step"))
            if ring is None:
                return [following]
            remaining = f.sub(f.load(I32, left), 1)
            f.store(remaining, left)
            f.branch(f.compare("!=", remaining, 0), lambda: ring.load(f.integer("rows_advance")))
            return [ring.wrap(following)]

        f.loop(f.integer("rows"), row, [top])

    def _pixel(self, f: KernelFunction, ring: RowRing | None, output: Value, source: Value) -> list[Value]:
        """All channels of one output pixel, each with `multiplier` outputs."""

        def one(_: Value, carried: list[Value]) -> list[Value]:
            channel, weights, record, target = carried

            def window_row(_: Value, c: list[Value]) -> list[Value]:
                def tap(_: Value, t: list[Value]) -> list[Value]:
                    product = f.mul(f.load_s8(t[0]), f.load_s8(t[1]))
                    return [f.offset(t[0], f.integer("tap_step")), f.offset(t[1], 1), f.add(t[2], product)]

                _, at, total = f.loop(f.integer("kernel_columns"), tap, c)
                following = f.offset(c[0], f.integer("row_step"))
                return [ring.wrap(following) if ring else following, at, total]

            start = [channel, weights, self.requantizer.load(f, record, "bias")]
            _, weights, total = f.loop(f.integer("kernel_rows"), window_row, start)
            f.store_i8(self.requantizer.emit(f, total, self.requantizer.load_all(f, record)), target)
            return [channel, weights, f.offset(record, self.requantizer.record_bytes), f.offset(target, 1)]

        def channel(_: Value, carried: list[Value]) -> list[Value]:
            at, *rest = f.loop(f.integer("multiplier"), one, carried)
            return [f.offset(at, 1), *rest]

        start = [source, f.pointer("weights"), f.pointer("records"), f.load(PTR, output)]
        f.store(f.loop(f.integer("channels"), channel, start)[3], output)
        return [f.offset(source, f.integer("column_step"))]


def lower_depthwise_general(layer: DepthwiseConv2D) -> Lowered:
    w = layer.window
    flat = layer.weights.reshape(-1, w.output_channels).T
    low, high = accumulator_bounds(flat, layer.bias, layer.input_zero_point)
    bias = folded_bias(flat, layer.bias, layer.input_zero_point)
    records = plan(layer.requantization, bias, low, high, 15)
    padded = w.pad_top or w.pad_left or w.pad_bottom or w.pad_right
    ring = RingPlan.of(w)
    row = ring.row_bytes if padded else w.input_width * w.input_channels
    arguments: tuple[Argument, ...] = (
        INPUT,
        OUTPUT,
        Constant(np.ascontiguousarray(flat).astype(np.int8).tobytes()),
        Constant((records.words & 0xFFFFFFFF).astype("<u4").tobytes()),
        w.output_height,
        w.output_width,
        w.stride_width * w.input_channels,
        w.stride_height * row % ring.bytes if padded else w.stride_height * row,
        w.input_channels,
        layer.multiplier,
        w.kernel_height,
        w.kernel_width,
        w.dilation_height * row,
        w.dilation_width * w.input_channels,
        *((ring.rows, w.stride_height, *ring.arguments(w, layer.input_zero_point)) if padded else ()),
    )
    kernel = DepthwiseGeneral(ring.copy_bytes if padded else 0, records.form)
    return Lowered((KernelCall(kernel, arguments),), ring.bytes if padded else 0, layer.macs)
