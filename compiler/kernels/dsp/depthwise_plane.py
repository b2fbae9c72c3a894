# SPDX-License-Identifier: Apache-2.0
"""Depthwise 3x3 convolution, stride 1 or 2, on planes of vertical pairs.

Two channels at a time, the input is spread into one padded plane a channel whose words hold two rows of a column as
int16: SMLAD then does two taps of a column, and its halves (SMLABT, SMLATB) serve the rows between. With stride 1 a
block is two rows by two columns; with stride 2 one row by two columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from compiler.codegen.builder import I16, Value
from compiler.kernels.dsp.frame import FrameConstants
from compiler.kernels.dsp.instructions import extend_quad, smla_halves, smlad
from compiler.kernels.dsp.requantize import Requantizer
from compiler.kernels.kernel import CompileOptions, Kernel, KernelFunction

WEIGHT_WORDS = 6
EDGE_WORDS = 4  # source offset, plane offset, left shift of the row's halfwords, the padding beside them
_PARAMETERS = (
    "input",
    "output",
    "records",
    "planes",
    "pairs",
    "channels",
    "source_row_bytes",
    "source_first",
    "full_pairs",
    "plane_bytes",
    "plane_row_bytes",
    "plane_first",
    "padding",
    "edges",
    "edge_bytes",
    "row_blocks",
    "block_columns_bytes",
    "output_row_bytes",
)


@dataclass(frozen=True)
class DepthwisePlane(Kernel):
    """`columns` are converted at a time (a divisor of the width), `block` columns computed at a time. `edges`: some
    pairs of rows have one row of padding. `odd_width`, `odd_height`: of the output (the height matters for stride 1
    only). `odd_channels`: the last pair of channels overlaps the one before it."""

    stride: int
    columns: int
    block: int
    edges: bool
    odd_width: bool
    odd_height: bool
    odd_channels: bool
    requantizer: Requantizer

    parameters = _PARAMETERS
    options = CompileOptions(flags=("-enable-misched=false", "-disable-lsr", "-greedy-reverse-local-assignment"))

    @property
    def name(self) -> str:
        marks = "".join(
            mark
            for mark, given in zip(
                "ewhc", (self.edges, self.odd_width, self.odd_height, self.odd_channels), strict=True
            )
            if given
        )
        return f"depthwise_plane_dsp_s{self.stride}_u{self.columns}b{self.block}{marks}_{self.requantizer.name}"

    def build(self, f: KernelFunction) -> None:
        f.park_table()
        _Builder(self, f).build()


class _Builder:
    def __init__(self, kernel: DepthwisePlane, f: KernelFunction) -> None:
        self.kernel, self.f = kernel, f
        self.lower_words = 3 if kernel.stride == 1 else 2
        # What a block needs one after the other: taps of the upper rows, of the lower rows, and the rest.
        self.upper = ("weight0", "weight1", "weight2", "bias")
        self.lower = (*(f"weight{3 + i}" for i in range(self.lower_words)), "below")
        fields = tuple(field for field in kernel.requantizer.fields if field != "bias")
        self.last = (*fields, "delta", "channels") if kernel.stride == 1 else (*fields, "channels")
        self.constants = FrameConstants(f, (self.upper, self.lower, self.last))

    def build(self) -> None:
        f, k = self.f, self.kernel
        self.constants.put("below", f.integer("plane_row_bytes"))
        self.constants.put("channels", f.integer("channels"))
        planes = f.pointer("planes")
        padding = f.integer("padding")

        def fill(cursor: Value, _: list[Value]) -> tuple[Value, list[Value]]:
            f.store(padding, cursor)
            return f.offset(cursor, 4), []

        f.loop_until(f.offset(planes, f.shl(f.integer("plane_bytes"), 1)), planes, fill)
        record = 4 * WEIGHT_WORDS + k.requantizer.record_bytes

        def pair(_: Value, carried: list[Value]) -> list[Value]:
            source, records, output = carried
            self._spread(source)

            def channel(_: Value, c: list[Value]) -> list[Value]:
                self._channel(*c)
                return [f.offset(c[0], f.integer("plane_bytes")), f.offset(c[1], record), f.offset(c[2], 1)]

            _, behind, following = f.loop(2, channel, [f.pointer("planes"), records, output])
            if not k.odd_channels:
                return [f.offset(source, 2), behind, following]
            step = f.load_i32(behind)
            return [f.offset(source, step), f.offset(behind, 4), f.offset(output, step)]

        f.loop(f.integer("pairs"), pair, [f.pointer("input"), f.pointer("records"), f.pointer("output")])

    # -- planes to output -----------------------------------------------------------------------------------------

    def _channel(self, plane: Value, records: Value, output: Value) -> None:
        f, k = self.f, self.kernel
        for i in range(3 + self.lower_words):
            self.constants.put(f"weight{i}", f.load_i32(records, 4 * i))
        for field in k.requantizer.fields:
            self.constants.put(field, k.requantizer.load(f, records, field, 4 * WEIGHT_WORDS))
        blocks, row_bytes = f.integer("row_blocks"), f.integer("output_row_bytes")
        if k.stride == 1:
            self.constants.put("delta", row_bytes)

        def row(index: Value, carried: list[Value]) -> list[Value]:
            if k.stride == 1 and k.odd_height:
                # The last block's second row does not exist: it is stored first, where the first row then goes.
                last = f.compare("==", f.add(index, 1), blocks)
                self.constants.put("delta", f.select(last, 0, row_bytes))
            # Loads are 4 bytes from the cursor: else LLVM keeps the advanced cursor alive as a load's address.
            start = f.offset(carried[0], -4)
            end = f.offset(start, f.integer("block_columns_bytes"))

            def block(cursor: Value, c: list[Value]) -> tuple[Value, list[Value]]:
                after = self._store(self._sums(cursor, k.block), c[0])
                return f.offset(cursor, 4 * k.block * k.stride), [after]

            cursor, (after,) = f.loop_until(end, start, block, [carried[1]])
            if k.odd_width:
                self._store(self._sums(cursor, 1), after)
            below = f.offset(carried[0], f.integer("plane_row_bytes"))
            return [below, f.offset(carried[1], f.shl(row_bytes, 1) if k.stride == 1 else row_bytes)]

        f.loop(blocks, row, [plane, output])

    def _sums(self, at: Value, columns: int) -> list[list[Value]]:
        """Accumulators [rows][columns] of the block whose upper pair of rows starts 4 bytes behind `at`."""
        f, stride = self.f, self.kernel.stride
        *upper, bias = self.constants.take(self.upper)
        totals = [[bias] * columns for _ in range(2 if stride == 1 else 1)]
        for value, c, tap in self._taps(at, columns):
            totals[0][c] = smlad(f, value, upper[tap], totals[0][c])
            if stride == 1:
                totals[1][c] = smla_halves(f, "tb", value, upper[tap], totals[1][c])
        *lower, below = self.constants.take(self.lower)
        for value, c, tap in self._taps(f.offset(at, below), columns):
            if stride == 1:
                totals[0][c] = smla_halves(f, "bt", value, lower[tap], totals[0][c])
                totals[1][c] = smlad(f, value, lower[tap], totals[1][c])
            else:
                totals[0][c] = smla_halves(f, ("bb", "bt", "bb")[tap], value, lower[tap // 2], totals[0][c])
        return totals

    def _taps(self, at: Value, columns: int) -> Iterator[tuple[Value, int, int]]:
        """Loads a row of words two by two: (word, output column, horizontal tap) of each use."""
        f, stride = self.f, self.kernel.stride
        count = (columns - 1) * stride + 3
        for first in range(0, count, 2):
            if first + 1 < count:
                loaded: Sequence[Value] = f.load_pair(at, 4 * first + 4)
            else:
                loaded = [f.load_i32(at, 4 * first + 4, volatile=True)]
            for x, value in enumerate(loaded, first):
                for c in range(columns):
                    if 0 <= x - c * stride < 3:
                        yield value, c, x - c * stride

    def _store(self, totals: list[list[Value]], target: Value) -> Value:
        """Stores a block, the second row before the first; returns the address behind its columns."""
        f = self.f
        values = dict(zip(self.last, self.constants.take(self.last), strict=True))
        for c in range(len(totals[0])):
            for row in reversed(range(len(totals))):
                value = self.kernel.requantizer.emit(f, totals[row][c], values)
                f.store_i8(value, f.offset(target, values["delta"]) if row else target)
            target = f.offset(target, values["channels"])
        return target

    # -- input to planes ------------------------------------------------------------------------------------------

    def _spread(self, source: Value) -> None:
        """Converts two channels at `source` into their planes; padding around them stays as it was filled."""
        f, k = self.f, self.kernel
        planes = f.pointer("planes")
        if k.edges:

            def edge(cursor: Value, _: list[Value]) -> tuple[Value, list[Value]]:
                shift, beside = f.load_i32(cursor, 8), f.load_i32(cursor, 12)
                self._columns(
                    f.offset(source, f.load_i32(cursor)),
                    f.offset(planes, f.load_i32(cursor, 4)),
                    lambda at: f.or_(f.shl(f.zext(f.load(I16, at, align=1)), shift), beside),
                )
                return f.offset(cursor, 4 * EDGE_WORDS), []

            edges = f.pointer("edges")
            f.loop_until(f.offset(edges, f.integer("edge_bytes")), edges, edge)
        row_bytes = f.integer("source_row_bytes")

        def rows(_: Value, carried: list[Value]) -> list[Value]:
            upper, target = carried

            def both(at: Value) -> Value:
                low, high = f.load(I16, at, align=1), f.load(I16, at, row_bytes, align=1)
                return f.or_(f.zext(low), f.shl(f.zext(high), 16))

            self._columns(upper, target, both)
            return [f.offset(upper, f.shl(row_bytes, 1)), f.offset(target, f.integer("plane_row_bytes"))]

        first = f.offset(planes, f.integer("plane_first"))
        f.loop(f.integer("full_pairs"), rows, [f.offset(source, f.integer("source_first")), first])

    def _columns(self, source: Value, target: Value, word: Callable[[Value], Value]) -> None:
        """One row of words: `word(address)` gives a column's four bytes (two rows, two channels)."""
        f, k = self.f, self.kernel
        channels, other = f.integer("channels"), f.integer("plane_bytes")

        def step(at: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            first, second = carried
            for i in range(k.columns):
                even, odd = extend_quad(f, word(at))
                f.store(even, first, 4 * i)
                f.store(odd, second, 4 * i)
                at = f.offset(at, channels)
            return at, [f.offset(first, 4 * k.columns), f.offset(second, 4 * k.columns)]

        f.loop_until(f.offset(source, f.integer("source_row_bytes")), source, step, [target, f.offset(target, other)])
