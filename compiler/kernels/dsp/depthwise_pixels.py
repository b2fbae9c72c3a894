# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution of any geometry, pixel by pixel, over the input or a ring of padded rows.

`DepthwiseQuads` runs four channels at a time over all taps; `DepthwiseGeneral` one output at a time, for few channels
or several outputs a channel.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from compiler.codegen.builder import I32, Value
from compiler.kernels.dsp.instructions import extend_quad, smla_halves
from compiler.kernels.dsp.requantize import Requantizer
from compiler.kernels.dsp.row_ring import RING_PARAMETERS, RowRing
from compiler.kernels.kernel import CompileOptions, Kernel, KernelFunction

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
    "blocks",
    "kernel_rows",
    "kernel_columns",
    "row_step",
    "tap_step",
)


@dataclass(frozen=True)
class DepthwisePixels(Kernel):
    """`copy_bytes` > 0: a ring of rows, copied in such steps; 0: windows of the input itself (no padding)."""

    copy_bytes: int
    requantizer: Requantizer

    @property
    def parameters(self) -> tuple[str, ...]:  # type: ignore[override]
        return _PARAMETERS + (("first_rows", "rows_advance", *RING_PARAMETERS) if self.copy_bytes else ())

    def build(self, f: KernelFunction) -> None:
        ring = RowRing(f, self.copy_bytes) if self.copy_bytes else None
        left = f.alloca(I32)
        f.store(f.integer("rows"), left)
        top = f.pointer("input")
        if ring:
            ring.start()
            ring.load(f.integer("first_rows"))
            top = f.offset(f.pointer("ring"), f.integer("ring_align"))

        def column(_: Value, carried: list[Value]) -> list[Value]:
            source, output = carried
            return [f.offset(source, f.integer("column_step")), self.pixel(f, ring, source, output)]

        def row(_: Value, carried: list[Value]) -> list[Value]:
            _, output = f.loop(f.integer("columns"), column, carried)
            following = f.offset(carried[0], f.integer("rows_step"))
            if ring is None:
                return [following, output]
            remaining = f.sub(f.load(I32, left), 1)
            f.store(remaining, left)
            f.branch(f.compare("!=", remaining, 0), lambda: ring.load(f.integer("rows_advance")))
            return [ring.wrap(following), output]

        f.loop(f.integer("rows"), row, [top, f.pointer("output")])

    @abstractmethod
    def pixel(self, f: KernelFunction, ring: RowRing | None, source: Value, output: Value) -> Value:
        """All channels of the pixel whose window starts at `source`; returns the address behind its outputs."""


@dataclass(frozen=True)
class DepthwiseGeneral(DepthwisePixels):
    """`blocks` is the number of outputs of a channel; weights are [channel, output of it, taps] int8."""

    options = CompileOptions(optimize=True)

    @property
    def name(self) -> str:
        return f"depthwise_general_dsp_c{self.copy_bytes}_{self.requantizer.name}"

    def pixel(self, f: KernelFunction, ring: RowRing | None, source: Value, output: Value) -> Value:
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
            at, *rest = f.loop(f.integer("blocks"), one, carried)
            return [f.offset(at, 1), *rest]

        start = [source, f.pointer("weights"), f.pointer("records"), output]
        return f.loop(f.integer("channels"), channel, start)[3]


@dataclass(frozen=True)
class DepthwiseQuads(DepthwisePixels):
    """`blocks` is the number of quads of channels; weights are [quad, taps, 4] int16 in the order 0, 2, 1, 3 of its
    channels. `taps` is the window's width. `overlap`: a quad's records end with the distance to the next quad."""

    taps: int
    overlap: bool

    options = CompileOptions(flags=("-enable-misched=false", "-disable-lsr"))

    @property
    def name(self) -> str:
        block = f"{self.taps}{'o' * self.overlap}"
        return f"depthwise_quads_dsp_{block}_c{self.copy_bytes}_{self.requantizer.name}"

    def build(self, f: KernelFunction) -> None:
        f.park_table()
        super().build(f)

    def pixel(self, f: KernelFunction, ring: RowRing | None, source: Value, output: Value) -> Value:
        size = self.requantizer.record_bytes

        def window_row(_: Value, carried: list[Value]) -> list[Value]:
            at, weights, *totals = carried
            step, cursor = f.integer("tap_step"), at
            for tap in range(self.taps):
                pairs = extend_quad(f, f.load(I32, cursor, align=1, volatile=True))
                for half, (x, w) in enumerate(zip(pairs, f.load_pair(weights, 8 * tap), strict=True)):
                    totals[half] = smla_halves(f, "bb", x, w, totals[half])
                    totals[half + 2] = smla_halves(f, "tt", x, w, totals[half + 2])
                cursor = f.offset(cursor, step)
            following = f.offset(at, f.integer("row_step"))
            return [ring.wrap(following) if ring else following, f.offset(weights, 8 * self.taps), *totals]

        def quad(_: Value, carried: list[Value]) -> list[Value]:
            at, weights, record, target = carried
            biases = [self.requantizer.load(f, record, "bias", c * size) for c in range(4)]
            _, weights, *totals = f.loop(f.integer("kernel_rows"), window_row, [at, weights, *biases])
            for c in range(4):
                fields = self.requantizer.load_all(f, record, c * size)
                f.store_i8(self.requantizer.emit(f, totals[c], fields), target, c)
            step = f.load_i32(record, 4 * size) if self.overlap else f.const(4)
            behind = f.offset(record, 4 * size + 4 * self.overlap)
            return [f.offset(at, step), weights, behind, f.offset(target, step)]

        start = [source, f.pointer("weights"), f.pointer("records"), output]
        f.loop(f.integer("blocks"), quad, start)
        return f.offset(output, f.integer("channels"))
