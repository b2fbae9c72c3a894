# SPDX-License-Identifier: Apache-2.0
"""Gathers patches from sliding windows, over the input itself or over a ring of padded rows."""

from __future__ import annotations

from collections.abc import Callable

from compiler.codegen.builder import I32, PTR, Value
from compiler.kernels.dsp.patch_gather import DirectWalk, FlatWalk, Gather, Source, Walk
from compiler.kernels.dsp.row_ring import RowRing
from compiler.kernels.kernel import KernelFunction


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
    """The way over the output for a form of gathering."""
    walks = {Source.DIRECT: DirectWalk, Source.FLAT: FlatWalk}
    return walks.get(gather.source, WindowWalk)(f, gather, pixels)
