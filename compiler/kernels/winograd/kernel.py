# SPDX-License-Identifier: Apache-2.0
"""The Winograd convolution's walk over the output and its transforms; what multiplies and requantises is a core's own.

A ring holds the m+2 input rows of a row of tiles. A group of tiles is transformed into `values`, int16
[positions, input channels / 4, tiles, 4] where a quad's channels are in the order 0, 2, 1, 3; then each block of
output channels multiplies it position by position into `products`, int32 [positions, tiles, channels], and transforms
these back into the output. Where tiles do not divide the output, the last ones overlap their neighbours.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from compiler.codegen.builder import I32, PTR, Operand, Value
from compiler.kernels.dsp.row_ring import RING_PARAMETERS, RowRing
from compiler.kernels.kernel import Kernel, KernelFunction
from compiler.kernels.winograd.arithmetic import TRANSFORMS, Operation, Transform

PARAMETERS = (
    "input",
    "output",
    "weights",
    "records",
    "records_bytes",
    "inverses",  # words: the factor's inverse shifted left by 0, 1, ...
    "values",
    "products",
    "tile_rows",
    "last_row",  # the output row where the last tiles begin
    "groups",  # groups of tiles in a row
    "last_input",  # where the last group begins, in bytes of an input row and of an output row
    "last_output",
    "expanded",  # a block's transformed weights
    *RING_PARAMETERS,
)


@dataclass(frozen=True)
class WinogradKernel(Kernel):
    """`tile` is m; `tiles` a group's, `channels` a block's. `depth`: input channels. `pixel_bytes` and `row_bytes`:
    between output pixels and rows. A block's record is the offset of its first channel, then each channel's fields.

    `strip` rows of tiles share weights that are transformed from int8 on the fly, and `values` holds all their groups;
    with 0, weights are in flash as they are multiplied, and `values` holds one group.
    """

    tile: int
    tiles: int
    channels: int
    depth: int
    pixel_bytes: int
    row_bytes: int
    copy_bytes: int
    strip: int

    parameters: ClassVar[tuple[str, ...]] = PARAMETERS

    @property
    def transform(self) -> Transform:
        return TRANSFORMS[self.tile]

    @property
    def position_bytes(self) -> int:
        """Of one position in `values`."""
        return 2 * self.depth * self.tiles

    @property
    def product_bytes(self) -> int:
        """Of one position in `products`."""
        return 4 * self.channels * self.tiles

    @property
    def code_bytes(self) -> int:
        return 2200 + (400 if self.strip else 0)

    @property
    def group_bytes(self) -> int:
        """Of a group in `values`."""
        return self.transform.positions * self.position_bytes

    @property
    def rows_at_once(self) -> int:
        """Output rows of a step along the height."""
        return self.tile * max(self.strip, 1)

    @property
    def ring_rows(self) -> int:
        return self.rows_at_once + 2

    @property
    def stream_bytes(self) -> int:
        """Of a block's start values and weights at one position, as they are multiplied."""
        return self.channels * (4 + 2 * self.depth)

    @property
    @abstractmethod
    def channel_bytes(self) -> int:
        """Of a channel's fields in the record."""

    @property
    def record_bytes(self) -> int:
        return 4 + self.channels * self.channel_bytes

    @property
    def shape_name(self) -> str:
        sizes = f"{self.depth}_{self.pixel_bytes}_{self.row_bytes}_c{self.copy_bytes}"
        fly = f"i{self.strip}" if self.strip else ""
        return f"f{self.tile}{fly}_{self.channels}x{self.tiles}_{sizes}"

    @property
    def lane_offset(self) -> int:
        """What is added to a word of `values`."""
        return self.transform.offset

    @property
    def holds_rows(self) -> bool:
        """Whether there are registers for the addresses of all rows."""
        return False

    @property
    def rolled(self) -> tuple[bool, bool]:
        """Whether the way back loops over the columns of products, and over the rows of outputs: code is shorter."""
        return False, False

    # -- what a core adds -----------------------------------------------------------------------------------------

    @abstractmethod
    def multiply(self, f: KernelFunction, weights: Value, values: Value) -> Value:
        """Emits the products of a block and a group; returns the end of the block's weights."""

    @abstractmethod
    def expand_quad(self, f: KernelFunction, words: list[Value], to: Value) -> None:
        """Transforms a channel's weights of a quad: 9 words of four int8 each. `to` is their place in the block's
        stream at position 0."""

    @property
    @abstractmethod
    def channel_step(self) -> int:
        """Between the weights of neighbouring channels in the stream."""

    @abstractmethod
    def store_row(self, f: KernelFunction, sums: list[Value], inverse: Operand, record: Value, output: Value) -> None:
        """Requantises the sums of a row of a tile and stores them at `output`. `inverse` is the row's offset in the
        channel's inverses, `record` the channel's."""

    def load_inverses(self, f: KernelFunction, first: Value, row: Operand) -> list[Value]:
        """The inverse of each sum of a row; `first` and `row` are offsets in bytes."""
        start = f.offset(f.pointer("inverses"), first)
        base, at = (start, row) if isinstance(row, int) else (f.offset(start, row), 0)
        exponents = self.transform.exponents
        offsets = [at + 4 * (exponents[0] - exponent) for exponent in exponents]
        loaded = {offset: f.load_i32(base, offset, volatile=True) for offset in sorted(set(offsets))}
        return [loaded[offset] for offset in offsets]

    @abstractmethod
    def lanes(self, f: KernelFunction, words: list[Value]) -> tuple[list[Value], list[Value]]:
        """The words' bytes 0 and 2, and their bytes 1 and 3, as pairs."""

    @abstractmethod
    def load_quad(self, f: KernelFunction, at: Value, offset: int) -> tuple[Value, Value]:
        """The two words of a quad in `values`."""

    # -- the walk -------------------------------------------------------------------------------------------------

    def build(self, f: KernelFunction) -> None:
        f.park_table()
        ring = RowRing(f, self.copy_bytes, unsigned=True)
        rows = f.alloca(PTR, self.ring_rows)
        ring.start()

        def tile_row(_: Value, carried: list[Value]) -> list[Value]:
            start, count, output = carried
            ring.load(count)
            ring.note_rows(rows, self.ring_rows)
            if self.strip:
                self._strip(f, rows, output)
            else:
                self._groups(f, rows, output)
            following, last = f.add(start, self.rows_at_once), f.integer("last_row")
            following = f.select(f.compare("<", following, last), following, last)
            step = f.sub(following, start)
            return [following, step, f.offset(output, f.mul(step, self.row_bytes))]

        f.loop(f.integer("tile_rows"), tile_row, [f.const(0), f.const(self.ring_rows), f.pointer("output")])

    def _advanced(self, f: KernelFunction, offset: Value, pixel: int, last: str) -> Value:
        """The next group's offset, in pixels of so many bytes; the last one is at a place of its own."""
        following, limit = f.add(offset, self.tile * self.tiles * pixel), f.integer(last)
        return f.select(f.compare("<", following, limit), following, limit)

    def _groups(self, f: KernelFunction, rows: Value, output: Value) -> None:
        def group(_: Value, carried: list[Value]) -> list[Value]:
            source, target = carried
            self._transform_inputs(f, rows, source, f.pointer("values"))
            self._over_records(f, f.offset(output, target), self._stored_block)
            source = self._advanced(f, source, self.depth, "last_input")
            return [source, self._advanced(f, target, self.pixel_bytes, "last_output")]

        f.loop(f.integer("groups"), group, [f.integer("ring_align"), f.const(0)])

    def _strip(self, f: KernelFunction, rows: Value, output: Value) -> None:
        def tile_row(_: Value, carried: list[Value]) -> list[Value]:
            def group(_: Value, carried: list[Value]) -> list[Value]:
                source, values = carried
                self._transform_inputs(f, top, source, values)
                return [self._advanced(f, source, self.depth, "last_input"), f.offset(values, self.group_bytes)]

            top, values = carried
            values = f.loop(f.integer("groups"), group, [f.integer("ring_align"), values])[1]
            return [f.offset(top, 4 * self.tile), values]

        f.loop(self.strip, tile_row, [rows, f.pointer("values")])
        self._over_records(f, output, self._expanded_block)

    def _over_records(
        self, f: KernelFunction, output: Value, run: Callable[[KernelFunction, Value, Value, Value], Value]
    ) -> None:
        """`run(f, weights, record, output) -> end of the block's weights` for each block of output channels."""

        def block(record: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            weights = run(f, carried[0], record, f.offset(output, f.load(I32, record)))
            return f.offset(record, self.record_bytes), [weights]

        records = f.pointer("records")
        f.loop_until(f.offset(records, f.integer("records_bytes")), records, block, [f.pointer("weights")])

    def _stored_block(self, f: KernelFunction, weights: Value, record: Value, output: Value) -> Value:
        weights = self.multiply(f, weights, f.pointer("values"))
        self._tiles_back(f, record, output)
        return weights

    def _expanded_block(self, f: KernelFunction, weights: Value, record: Value, output: Value) -> Value:
        weights = self._expand(f, weights)

        def tile_row(_: Value, carried: list[Value]) -> list[Value]:
            def group(_: Value, carried: list[Value]) -> list[Value]:
                target, values = carried
                self.multiply(f, f.pointer("expanded"), values)
                self._tiles_back(f, record, f.offset(row, target))
                return [self._advanced(f, target, self.pixel_bytes, "last_output"), f.offset(values, self.group_bytes)]

            row, values = carried
            values = f.loop(f.integer("groups"), group, [f.const(0), values])[1]
            return [f.offset(row, self.tile * self.row_bytes), values]

        f.loop(self.strip, tile_row, [output, f.pointer("values")])
        return weights

    def _transform_inputs(self, f: KernelFunction, rows: Value, source: Value, values: Value) -> None:
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

    def _expand(self, f: KernelFunction, weights: Value) -> Value:
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

    def _tiles_back(self, f: KernelFunction, record: Value, output: Value) -> None:
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
