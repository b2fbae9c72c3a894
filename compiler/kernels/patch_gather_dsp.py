# SPDX-License-Identifier: Apache-2.0
"""Gathers input patches for `PatchMatrix`: bytes to int16, the pixels of a group interleaved by quads of elements.

A patch is a number of runs of consecutive bytes (a row of the window; the whole patch of a 1x1 convolution). The whole
quads of all runs come first, the up to three bytes left of each run behind them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from compiler.codegen.builder import I8, I16, I32, PTR, Function, Value
from compiler.kernels.instructions_dsp import extend_quad, joined_quad
from compiler.kernels.kernel import KernelFunction
from compiler.kernels.row_ring_dsp import RING_PARAMETERS, RowRing


class Source(Enum):
    """Where patches come from.

    DIRECT: the bytes of one pixel, converted where they are multiplied (each is used once, or a buffer would be large).
    FLAT: consecutive patches. PLANE: windows of the input itself (no padding). RING: windows of a ring of padded rows.
    """

    DIRECT = "direct"
    FLAT = "flat"
    PLANE = "plane"
    RING = "ring"


_DIRECT = ("groups", "output_channels", "run_bytes")
_FLAT = ("groups", "output_channels", "source_back", "output_back", "run_bytes", "tails")
_WINDOW = (
    "groups",
    "output_channels",
    "rows",
    "columns",
    "column_step",
    "row_step",
    "rows_step",
    "rows_advance",
    "first_rows",
    "tap_step",
    "run_bytes",
    "tails",
)


@dataclass(frozen=True)
class Gather:
    """How patches are read: `runs` of `unroll` quads a step plus `tail` bytes each (0 steps: no whole quad).

    `straight`: one step is the whole run. `taps`: runs of one row of the window (dilation; else 1). `aligned`: groups
    divide the rows of the output, so none spans two. `copy_bytes`: of the ring's rows. `joined`:
    for weights in that form.
    """

    source: Source
    runs: int
    unroll: int
    tail: int = 0
    straight: bool = False
    taps: int = 1
    aligned: bool = False
    copy_bytes: int = 4
    joined: bool = False

    @property
    def name(self) -> str:
        ring = f"_c{self.copy_bytes}" if self.source is Source.RING else ""
        taps = f"t{self.taps}" if self.taps > 1 else ""
        tail = f"e{self.tail}" if self.tail else ""
        marks = f"{'s' * self.straight}{'a' * self.aligned}{'j' * self.joined}"
        return f"{self.source.value}{self.runs}x{self.unroll}{tail}{taps}{marks}{ring}"

    def convert(self, f: Function, word: Value) -> tuple[Value, Value]:
        """The two words of a quad in the buffer."""
        return joined_quad(f, word) if self.joined else extend_quad(f, word)

    @property
    def parameters(self) -> tuple[str, ...]:
        if self.source is Source.DIRECT:
            return _DIRECT
        if self.source is Source.FLAT:
            return _FLAT
        return _WINDOW + (RING_PARAMETERS if self.source is Source.RING else ())


class Walk(ABC):
    """Walks over the output in groups of `pixels`; `outputs` holds the group's output addresses in the frame."""

    def __init__(self, f: KernelFunction, gather: Gather, pixels: int) -> None:
        self.f, self.gather, self.pixels = f, gather, pixels
        self.outputs = f.alloca(PTR, pixels)

    @abstractmethod
    def groups(self, buffer: Callable[[], Value], multiply: Callable[[], None]) -> None:
        """Emits the loops: gathers each group into the buffer, then `multiply`."""

    def _note_outputs(self, output: Value) -> Value:
        """Consecutive output addresses from `output` on; returns the one behind them."""
        for p in range(self.pixels):
            self.f.store(output, self.outputs, 4 * p)
            output = self.f.offset(output, self.f.integer("output_channels"))
        return output

    def _run(self, source: Value, quads: Value, tails: Value | None, index: int) -> tuple[Value, Value]:
        """Converts run `index`. Returns the addresses behind it in the source and in the buffer's whole quads."""
        f, g = self.f, self.gather
        stride = 8 * self.pixels

        def step(at: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            for i in range(g.unroll):
                first, second = g.convert(f, f.load(I32, at, 4 * i, align=1))
                f.store(first, carried[0], stride * i)
                f.store(second, carried[0], stride * i + 4)
            return f.offset(at, 4 * g.unroll), [f.offset(carried[0], stride * g.unroll)]

        if g.straight:
            source, (quads,) = step(source, [quads])
        elif g.unroll:
            source, (quads,) = f.loop_until(f.offset(source, f.integer("run_bytes")), source, step, [quads])
        for i in range(g.tail):
            assert tails is not None
            element = index * g.tail + i
            f.store(f.sext(f.load(I8, source, i), I16), tails, element // 4 * stride + element % 4 * 2)
        return f.offset(source, g.tail), quads

    def _tails(self, target: Value) -> Value | None:
        return self.f.offset(target, self.f.integer("tails")) if self.gather.tail else None


class DirectWalk(Walk):
    """One pixel a group, whose bytes are the buffer."""

    def __init__(self, f: KernelFunction, gather: Gather, pixels: int) -> None:
        super().__init__(f, gather, pixels)
        self.source = f.alloca(PTR)

    def groups(self, buffer: Callable[[], Value], multiply: Callable[[], None]) -> None:
        f = self.f
        f.store(f.pointer("input"), self.source)

        def group(_: Value, carried: list[Value]) -> list[Value]:
            behind = self._note_outputs(carried[0])
            multiply()
            f.store(f.offset(f.load(PTR, self.source), f.integer("run_bytes")), self.source)
            return [behind]

        f.loop(f.integer("groups"), group, [f.pointer("output")])


class FlatWalk(Walk):
    """Patches that lie one behind the other. The last group overlaps the one before it where groups do not divide."""

    def groups(self, buffer: Callable[[], Value], multiply: Callable[[], None]) -> None:
        f = self.f

        def group(index: Value, carried: list[Value]) -> list[Value]:
            last = f.compare("==", f.add(index, 1), f.integer("groups"))
            source = f.offset(carried[0], f.select(last, f.integer("source_back"), 0))
            output = f.offset(carried[1], f.select(last, f.integer("output_back"), 0))
            target = buffer()
            behind = self._note_outputs(output)
            for p in range(self.pixels):
                quads, following = f.offset(target, 8 * p), source
                tails = self._tails(quads)
                for run in range(self.gather.runs):
                    # Several runs read the same bytes: weights that are sums of int8.
                    following, quads = self._run(source, quads, tails, run)
                source = following
            multiply()
            return [source, behind]

        f.loop(f.integer("groups"), group, [f.pointer("input"), f.pointer("output")])


class WindowWalk(Walk):
    """Windows of the input or of the ring. The addresses of the window's rows are in the frame."""

    def __init__(self, f: KernelFunction, gather: Gather, pixels: int) -> None:
        super().__init__(f, gather, pixels)
        self.window_rows = gather.runs // gather.taps
        self.tops = f.alloca(PTR, self.window_rows)
        self.left = f.alloca(I32)
        self.ring = RowRing(f, gather.copy_bytes) if gather.source is Source.RING else None

    def groups(self, buffer: Callable[[], Value], multiply: Callable[[], None]) -> None:
        f = self.f
        top = f.pointer("input")
        if self.ring:
            self.ring.start()
            self.ring.load(f.integer("first_rows"))
            top = f.offset(f.pointer("ring"), f.integer("ring_align"))
        for row in range(self.window_rows):
            f.store(top, self.tops, 4 * row)
            top = f.offset(top, f.integer("row_step"))
        f.store(f.integer("rows"), self.left)
        if self.gather.aligned:
            self._aligned(buffer, multiply)
        else:
            self._flattened(buffer, multiply)

    def _next_row(self) -> None:
        """Moves the window down, loading rows of the ring; not behind the last row of the output."""
        f = self.f
        left = f.sub(f.load(I32, self.left), 1)
        f.store(left, self.left)

        def move(row: Value, _: list[Value]) -> None:
            place = f.offset(self.tops, f.shl(row, 2))
            top = f.offset(f.load(PTR, place), f.integer("rows_step"))
            f.store(self.ring.wrap(top) if self.ring else top, place)

        def down() -> None:
            if self.ring:
                self.ring.load(f.integer("rows_advance"))
            f.loop(self.window_rows, move)

        f.branch(f.compare("!=", left, 0), down)

    def _aligned(self, buffer: Callable[[], Value], multiply: Callable[[], None]) -> None:
        """Groups never span two rows of the output."""
        f = self.f

        def group(_: Value, carried: list[Value]) -> list[Value]:
            x, output = carried
            behind = self._note_outputs(output)
            if self.gather.straight and self.window_rows <= 4:
                x = self._straight_group(buffer(), x)
            else:

                def pixel(p: Value, c: list[Value]) -> list[Value]:
                    self._patch(f.offset(buffer(), f.shl(p, 3)), c[0])
                    return [f.add(c[0], f.integer("column_step"))]

                (x,) = f.loop(self.pixels, pixel, [x])
            multiply()
            return [x, behind]

        def row(_: Value, carried: list[Value]) -> list[Value]:
            _, behind = f.loop(f.integer("columns"), group, [f.const(0), *carried], step=self.pixels)
            self._next_row()
            return [behind]

        f.loop(f.integer("rows"), row, [f.pointer("output")])

    def _straight_group(self, target: Value, x: Value) -> Value:
        """All patches of a group without a loop, row by row; returns the next group's place in a row."""
        f, stride = self.f, 8 * self.pixels
        step = f.integer("column_step")
        for row in range(self.window_rows):
            source = f.offset(self._top(row), x)
            for p in range(self.pixels):
                first = f.offset(target, 8 * p)
                quads = f.offset(first, stride * self.gather.unroll * row * self.gather.taps)
                self._taps(source, quads, self._tails(first), row * self.gather.taps)
                source = f.offset(source, step)
        for _ in range(self.pixels):
            x = f.add(x, step)
        return x

    def _flattened(self, buffer: Callable[[], Value], multiply: Callable[[], None]) -> None:
        """Groups run on over the ends of rows. Behind the last pixel, the last pixel is taken again."""
        f = self.f
        place, output, pixels, columns = f.alloca(I32), f.alloca(PTR), f.alloca(I32), f.alloca(I32)
        f.store(f.const(0), place)
        f.store(f.pointer("output"), output)
        f.store(f.integer("columns"), columns)
        f.store(f.mul(f.integer("rows"), f.integer("columns")), pixels)

        def pixel(p: Value, _: list[Value]) -> None:
            x, target = f.load(I32, place), f.load(PTR, output)
            f.store(target, f.offset(self.outputs, f.shl(p, 2)))
            self._patch(f.offset(buffer(), f.shl(p, 3)), x)
            more = f.sub(f.load(I32, pixels), 1)
            f.branch(f.compare("!=", more, 0), lambda: advance(x, target, more))

        def advance(x: Value, target: Value, more: Value) -> None:
            f.store(more, pixels)
            f.store(f.offset(target, f.integer("output_channels")), output)
            f.store(f.add(x, f.integer("column_step")), place)
            left = f.sub(f.load(I32, columns), 1)
            f.store(left, columns)
            f.branch(f.compare("==", left, 0), line_end)

        def line_end() -> None:
            f.store(f.const(0), place)
            f.store(f.integer("columns"), columns)
            self._next_row()

        def group(_: Value, __: list[Value]) -> None:
            f.loop(self.pixels, pixel)
            multiply()

        f.loop(f.integer("groups"), group)

    def _patch(self, target: Value, x: Value) -> None:
        """Gathers the patch at `x` bytes from the window's start in its rows."""
        f, g = self.f, self.gather
        if g.tail == 0 and self.window_rows > 4:

            def one(row: Value, c: list[Value]) -> list[Value]:
                top = f.load(PTR, f.offset(self.tops, f.shl(row, 2)))
                return [self._taps(f.offset(top, x), c[0], None, 0)]

            f.loop(self.window_rows, one, [target])
            return
        quads, tails = target, self._tails(target)
        for row in range(self.window_rows):
            quads = self._taps(f.offset(self._top(row), x), quads, tails, row * g.taps)

    def _top(self, row: int) -> Value:
        return self.f.load(PTR, self.tops, 4 * row)

    def _taps(self, source: Value, quads: Value, tails: Value | None, index: int) -> Value:
        """Gathers the runs of one row of the window, the first of them being number `index` of the patch."""
        f, g = self.f, self.gather
        for tap in range(g.taps):
            _, quads = self._run(source, quads, tails, index + tap)
            if tap + 1 < g.taps:
                source = f.offset(source, f.integer("tap_step"))
        return quads


def walk(f: KernelFunction, gather: Gather, pixels: int) -> Walk:
    walks = {Source.DIRECT: DirectWalk, Source.FLAT: FlatWalk}
    return walks.get(gather.source, WindowWalk)(f, gather, pixels)
