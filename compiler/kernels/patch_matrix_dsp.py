# SPDX-License-Identifier: Apache-2.0
"""Convolutions and fully connected layers as patches times weights, with SMLAD.

A few output pixels at a time, their input patches are gathered as int16 into a small buffer; then all output channels
run over it, a block of channels by pixels in registers. The buffer interleaves the pixels by quads of elements, so
every operand is at a small constant offset of one pointer, whatever the depth: one kernel serves all depths that are
multiples of its unrolling. Weights stay int8 in flash, in the order in which SXTB16 makes pairs of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from compiler.codegen.builder import I8, I16, I32, PTR, Value
from compiler.kernels.instructions_dsp import extend_quad, smlad
from compiler.kernels.kernel import CompileOptions, Kernel, KernelFunction
from compiler.kernels.requantize_dsp import Requantizer
from compiler.kernels.row_ring_dsp import RING_PARAMETERS, RowRing

_STRAIGHT = ("-enable-misched=false", "-disable-lsr", "-disable-machine-licm")
"""Keeps the order of instructions as built; no address is rewritten or moved out of a loop into a spilled register."""
_LOOP = (*_STRAIGHT, "-greedy-reverse-local-assignment")
"""Measured: 0.972 -> 0.928 instructions per MAC (3x3, 16 channels); 0.965 -> 1.017 where the depth has no loop."""


class Source(Enum):
    """Where patches come from: `FLAT` consecutive runs of bytes; `PLANE` windows of the input itself (no padding);
    `RING` windows of a ring of padded rows."""

    FLAT = "flat"
    PLANE = "plane"
    RING = "ring"


@dataclass(frozen=True)
class Gather:
    """How a patch is read: `segments` runs of whole quads plus `tail` bytes each, `unroll` quads a step (0: a run has
    no whole quad). `taps`: a row of the window is several runs (dilation). `tails_wrap`: tails fill several quads."""

    source: Source
    unroll: int
    tail: int = 0
    taps: bool = False
    tails_wrap: bool = False
    copy_bytes: int = 4

    @property
    def name(self) -> str:
        copy = f"_r{self.copy_bytes}" if self.source is Source.RING else ""
        tail = f"_e{self.tail}{'w' * self.tails_wrap}" if self.tail else ""
        return f"{self.source.value}{self.unroll}{'t' * self.taps}{tail}{copy}"


_COMMON = (
    "input",
    "output",
    "weights",
    "records",
    "records_bytes",
    "buffer",
    "buffer_bytes",
    "groups",
    "pixels",
    "output_channels",
    "segments",
    "segment_bytes",
    "segment_step",
    "tails",
)
_WINDOW = ("columns", "column_step", "rows_step", "rows_advance", "first_rows", "taps", "tap_step")


@dataclass(frozen=True)
class PatchMatrix(Kernel):
    """`channels` x `pixels_at_once` outputs in registers, `unroll` quads of the depth a step.

    `wide`: weights are int16, in the buffer's order. `once`: the depth is one step, without a loop. `overlap`: a
    block's record ends with the distance to the next block's output (an odd count of channels).
    """

    gather: Gather
    channels: int
    pixels_at_once: int
    unroll: int
    requantizer: Requantizer
    overlap: bool = False
    once: bool = False
    wide: bool = False

    @property
    def options(self) -> CompileOptions:  # type: ignore[override]
        return CompileOptions(flags=_STRAIGHT if self.once else _LOOP)

    @property
    def parameters(self) -> tuple[str, ...]:  # type: ignore[override]
        window = _WINDOW if self.gather.source is not Source.FLAT else ()
        ring = RING_PARAMETERS if self.gather.source is Source.RING else ()
        return _COMMON + window + ring

    @property
    def name(self) -> str:
        marks = f"{'w' * self.wide}{'' if self.once else 'n'}{'o' * self.overlap}"
        block = f"{self.channels}x{self.pixels_at_once}x{self.unroll}{marks}"
        return f"patch_dsp_{self.gather.name}_{block}_{self.requantizer.name}"

    def build(self, f: KernelFunction) -> None:
        f.park_table()
        _Builder(self, f).build()


class _Builder:
    def __init__(self, kernel: PatchMatrix, f: KernelFunction) -> None:
        self.kernel, self.f = kernel, f
        self.windowed = kernel.gather.source is not Source.FLAT
        self.outputs = f.alloca(PTR, kernel.pixels_at_once)
        # The next pixel: its source address, its output address, pixels left, columns left, the window's top row.
        self.source, self.output, self.top = f.alloca(PTR), f.alloca(PTR), f.alloca(PTR)
        self.left, self.columns = f.alloca(I32), f.alloca(I32)
        self.ring = RowRing(f, kernel.gather.copy_bytes) if kernel.gather.source is Source.RING else None

    def build(self) -> None:
        f = self.f
        f.store(f.integer("pixels"), self.left)
        f.store(f.pointer("output"), self.output)
        top = f.pointer("input")
        if self.ring:
            self.ring.start()
            self.ring.load(f.integer("first_rows"))
            top = f.offset(f.pointer("ring"), f.integer("ring_align"))
        f.store(top, self.top)
        f.store(top, self.source)
        if self.windowed:
            f.store(f.integer("columns"), self.columns)
        f.loop(f.integer("groups"), lambda _, __: self._group())

    def _group(self) -> None:
        f, pixels = self.f, self.kernel.pixels_at_once
        f.loop(pixels, lambda p, _: self._pixel(p))
        self._channels()

    # -- gathering ------------------------------------------------------------------------------------------------

    def _pixel(self, p: Value) -> None:
        """Gathers the next pixel as the p-th of the buffer. Past the last pixel, it is gathered again."""
        f = self.f
        output = f.load(PTR, self.output)
        f.store(output, f.offset(self.outputs, f.shl(p, 2)))
        source, target = f.load(PTR, self.source), f.offset(f.pointer("buffer"), f.shl(p, 3))
        self._patch(source, target)
        left = f.sub(f.load(I32, self.left), 1)
        more = f.compare("!=", left, 0)
        f.branch(more, lambda: self._advance(source, output, left))

    def _advance(self, source: Value, output: Value, left: Value) -> None:
        f = self.f
        f.store(left, self.left)
        f.store(f.offset(output, f.integer("output_channels")), self.output)
        if not self.windowed:
            f.store(f.offset(source, f.integer("segment_step")), self.source)
            return
        f.store(f.offset(source, f.integer("column_step")), self.source)
        columns = f.sub(f.load(I32, self.columns), 1)
        f.store(columns, self.columns)
        f.branch(f.compare("==", columns, 0), self._next_row)

    def _next_row(self) -> None:
        f = self.f
        top = f.offset(f.load(PTR, self.top), f.integer("rows_step"))
        if self.ring:
            self.ring.load(f.integer("rows_advance"))
            top = self.ring.wrap(top)
        f.store(top, self.top)
        f.store(top, self.source)
        f.store(f.integer("columns"), self.columns)

    def _patch(self, source: Value, target: Value) -> None:
        """All runs of one patch: whole quads first, the tails behind them."""
        f, g = self.f, self.kernel.gather
        carried = [source, target] + ([f.offset(target, f.integer("tails"))] if g.tail else [])
        if not self.windowed:
            f.loop(f.integer("segments"), lambda _, c: [c[0], *self._run(c)[1:]], carried)
            return

        def row(_: Value, c: list[Value]) -> list[Value]:
            if g.taps:
                inner = f.loop(f.integer("taps"), lambda _, t: self._tap(t), c)
            else:
                inner = [c[0], *self._run(c)[1:]]
            following = f.offset(inner[0], f.integer("segment_step"))
            return [self.ring.wrap(following) if self.ring else following, *inner[1:]]

        f.loop(f.integer("segments"), row, carried)

    def _tap(self, carried: list[Value]) -> list[Value]:
        return [self.f.offset(carried[0], self.f.integer("tap_step")), *self._run(carried)[1:]]

    def _run(self, carried: list[Value]) -> list[Value]:
        """One run of consecutive bytes: (source, quads, tails) advanced behind it."""
        f, g = self.f, self.kernel.gather
        stride = 8 * self.kernel.pixels_at_once
        source, target = carried[0], carried[1]
        if g.unroll:

            def quads(cursor: Value, c: list[Value]) -> tuple[Value, list[Value]]:
                for i in range(g.unroll):
                    even, odd = extend_quad(f, f.load(I32, cursor, 4 * i, align=1))
                    f.store(even, c[0], stride * i)
                    f.store(odd, c[0], stride * i + 4)
                return f.offset(cursor, 4 * g.unroll), [f.offset(c[0], stride * g.unroll)]

            source, (target,) = f.loop_until(f.offset(source, f.integer("segment_bytes")), source, quads, [target])
        if not g.tail:
            return [source, target]
        tails = carried[2]
        for i in range(g.tail):
            f.store(f.sext(f.load(I8, source, i), I16), tails)
            tails = f.offset(tails, 2)
            if g.tails_wrap:
                full = f.compare("==", f.and_(f.builder.ptrtoint(tails, I32), 7), 0)
                tails = f.offset(tails, f.select(full, stride - 8, 0))
        return [source, target, tails]

    # -- multiplying ----------------------------------------------------------------------------------------------

    def _channels(self) -> None:
        f, k = self.f, self.kernel
        record, records = k.requantizer.record_bytes, f.pointer("records")

        def block(at: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            weights, channel = carried
            biases = [k.requantizer.load(f, at, "bias", c * record) for c in range(k.channels)]
            start = [bias for bias in biases for _ in range(k.pixels_at_once)]
            buffer = f.pointer("buffer")
            if k.once:
                _, (weights, *totals) = self._step(buffer, [weights, *start])
            else:
                end = f.offset(buffer, f.integer("buffer_bytes"))
                _, (weights, *totals) = f.loop_until(end, buffer, self._step, [weights, *start])
            outputs = [f.load(PTR, self.outputs, 4 * p) for p in range(k.pixels_at_once)]
            for c in range(k.channels):
                fields = k.requantizer.load_all(f, at, c * record)
                place = f.add(channel, c) if c else channel
                for p, output in enumerate(outputs):
                    f.store_i8(k.requantizer.emit(f, totals[c * k.pixels_at_once + p], fields), f.offset(output, place))
            step = f.load_i32(at, k.channels * record) if k.overlap else f.const(k.channels)
            return f.offset(at, k.channels * record + 4 * k.overlap), [weights, f.add(channel, step)]

        f.loop_until(f.offset(records, f.integer("records_bytes")), records, block, [f.pointer("weights"), f.const(0)])

    def _step(self, cursor: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
        """`unroll` quads of depth for the block: `cursor` in the buffer, then weights and accumulators."""
        f, k = self.f, self.kernel
        weights, totals = carried[0], carried[1:]
        at = 0
        for quad in range(k.unroll):
            offset = 8 * k.pixels_at_once * quad
            single = [f.load_pair(cursor, offset)] if k.pixels_at_once == 1 else None
            together = 1 if k.channels == 1 else 2
            for first in range(0, k.channels, together):
                pairs = self._weights(weights, at, together)
                at += (8 if k.wide else 4) * together
                for p in range(k.pixels_at_once):
                    x = single[0] if single else f.load_pair(cursor, offset + 8 * p)
                    for half in range(2):
                        for c, pair in enumerate(pairs, first):
                            i = c * k.pixels_at_once + p
                            totals[i] = smlad(f, pair[half], x[half], totals[i])
        return f.offset(cursor, 8 * k.pixels_at_once * k.unroll), [f.offset(weights, at), *totals]

    def _weights(self, weights: Value, at: int, channels: int) -> list[tuple[Value, Value]]:
        """A quad of weights of each of one or two channels, as pairs of int16 in the buffer's order."""
        f = self.f
        if self.kernel.wide:
            return [f.load_pair(weights, at + 8 * c) for c in range(channels)]
        if channels == 1:
            return [extend_quad(f, f.load_i32(weights, at, volatile=True))]
        return [extend_quad(f, word) for word in f.load_pair(weights, at)]
