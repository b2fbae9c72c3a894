# SPDX-License-Identifier: Apache-2.0
"""The Winograd kernels' transforms of inputs, of weights on the fly, and of products back into outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compiler.codegen.builder import I32, PTR, Operand, Value
from compiler.kernels.kernel import KernelFunction
from compiler.kernels.winograd.arithmetic import Operation
from compiler.kernels.winograd.layout import WinogradLayout


@dataclass(frozen=True)
class WinogradTransforms(WinogradLayout):
    """Each transform goes over columns first, then over rows."""

    def transform_inputs(self, f: KernelFunction, rows: Value, source: Value, values: Value) -> None:
        """Transforms the inputs of a group, `source` bytes behind the starts of its rows, into `values`."""
        size, step = self.transform.size, 8 * self.tiles
        stride = size * self.position_bytes
        held = [f.load(PTR, rows, 4 * r) for r in range(size)] if self.holds_rows else None

        def tile(_: Value, carried: list[Value]) -> list[Value]:
            def quad(_: Value, carried: list[Value]) -> list[Value]:
                at, target = carried
                tops = held or [f.load(PTR, rows, 4 * r) for r in range(size)]
                words = [f.load(I32, top, at, volatile=True) for top in tops]
                for half, lanes in enumerate(self.lanes(f, words)):
                    for i, value in enumerate(self.transform.forward(f, lanes, 0)):
                        f.store(value, target, i * stride + 4 * half)
                return [f.add(at, 4), f.offset(target, step)]

            at, target = carried
            f.loop(size * self.depth // 4, quad, [at, target])
            return [f.add(at, self.tile * self.depth), f.offset(target, 8)]

        f.loop(self.tiles, tile, [source, values])

        def row(_: Value, carried: list[Value]) -> list[Value]:
            def quads(at: Value, _: list[Value]) -> tuple[Value, list[Value]]:
                pairs = [self.load_quad(f, at, j * self.position_bytes) for j in range(size)]
                for half in range(2):
                    results = self.transform.forward(f, [pair[half] for pair in pairs], self.lane_offset)
                    for j, value in enumerate(results):
                        f.store(value, at, j * self.position_bytes + 4 * half)
                return f.offset(at, 8), []

            f.loop_until(f.offset(carried[0], self.position_bytes), carried[0], quads)
            return [f.offset(carried[0], stride)]

        f.loop(size, row, [values])

    def expand(self, f: KernelFunction, weights: Value) -> Value:
        """Transforms a block's weights; in flash each channel has 9 start values, its bias, and 9 words a quad."""

        def channel(_: Value, carried: list[Value]) -> list[Value]:
            def quad(_: Value, carried: list[Value]) -> list[Value]:
                source, to = carried
                self.expand_quad(f, [f.load_i32(source, 4 * i) for i in range(9)], to)
                return [f.offset(source, 36), f.offset(to, 8 * self.channels)]

            source, start, body = carried
            words = [f.load_i32(source, 4 * i) for i in range(9)]
            self.expand_taps(f, words, start, f.add, f.sub, lambda value, to, at: f.store(value, to, at))
            place = self.transform.bias_position * self.stream_bytes
            f.store(f.add(f.load_i32(start, place), f.load_i32(source, 36)), start, place)
            source, _ = f.loop(self.depth // 4, quad, [f.offset(source, 40), body])
            return [source, f.offset(start, 4), f.offset(body, self.channel_step)]

        start = f.pointer("expanded")
        return f.loop(self.channels, channel, [weights, start, f.offset(start, 4 * self.channels)])[0]

    def expand_taps(
        self,
        f: KernelFunction,
        taps: list[Value],
        to: Value,
        add: Operation,
        sub: Operation,
        store: Callable[[Value, Value, int], None],
        rows: int = 1,
    ) -> None:
        """Transforms 3 x 3 taps; `store(value, pointer, offset)` takes each position's, which are `stream_bytes` apart
        from `to` on. `rows` at a time are without a loop."""
        size, expand = self.transform.size, self.transform.expand
        columns = f.alloca(I32, 3 * size)
        for j in range(3):
            for i, value in enumerate(expand(add, sub, taps[j::3])):
                f.store(value, columns, 4 * (3 * i + j))

        def row(_: Value, carried: list[Value]) -> list[Value]:
            column, to = carried
            for _ in range(rows):
                values = expand(add, sub, [f.load_i32(column, 4 * j, volatile=True) for j in range(3)])
                for j, value in enumerate(values):
                    store(value, to, j * self.stream_bytes)
                column, to = f.offset(column, 12), f.offset(to, size * self.stream_bytes)
            return [column, to]

        f.loop(size // rows, row, [columns, to])

    def tiles_back(self, f: KernelFunction, record: Value, output: Value) -> None:
        """Transforms the products of a block and a group back, and stores the outputs."""

        def channel(_: Value, carried: list[Value]) -> list[Value]:
            def tile(_: Value, carried: list[Value]) -> list[Value]:
                self._transform_back(f, carried[0], carried[2], carried[1])
                following = f.offset(carried[1], self.tile * self.pixel_bytes)
                return [f.offset(carried[0], 4 * self.channels), following, carried[2]]

            products, target, fields = carried
            f.loop(self.tiles, tile, [products, target, fields])
            return [f.offset(products, 4), f.offset(target, 1), f.offset(fields, self.channel_bytes)]

        f.loop(self.channels, channel, [f.pointer("products"), output, f.offset(record, 4)])

    def _transform_back(self, f: KernelFunction, products: Value, record: Value, output: Value) -> None:
        size, step = self.transform.size, self.product_bytes

        def products_at(base: Value, first: int, stride: int) -> list[Value]:
            return [f.load_i32(base, (first + i * stride) * step, volatile=True) for i in range(size)]

        def column(at: int, base: Value) -> None:
            for row, value in enumerate(self.transform.backward(f, products_at(base, at, size))):
                f.store(value, base, (row * size + at) * step)

        def row(at: int, base: Value, inverse: Operand, output: Value) -> None:
            sums = self.transform.backward(f, products_at(base, at * size, 1))
            self.store_row(f, sums, inverse, record, output)

        exponents = self.transform.exponents

        def one_column(_: Value, carried: list[Value]) -> list[Value]:
            column(0, carried[0])
            return [f.offset(carried[0], step)]

        def one_row(_: Value, carried: list[Value]) -> list[Value]:
            base, inverse, output = carried
            row(0, base, inverse, output)
            # The exponents fall by one a row, down to the last one.
            last = 4 * (exponents[0] - exponents[-1])
            inverse = f.select(f.compare("<", inverse, last), f.add(inverse, 4), last)
            return [f.offset(base, size * step), inverse, f.offset(output, self.row_bytes)]

        columns_rolled, rows_rolled = self.rolled
        if columns_rolled:
            f.loop(size, one_column, [products])
        else:
            for i in range(size):
                column(i, products)
        if rows_rolled:
            f.loop(self.tile, one_row, [products, f.const(0), output])
        else:
            for i in range(self.tile):
                row(i, products, 4 * (exponents[0] - exponents[i]), f.offset(output, i * self.row_bytes))
