# SPDX-License-Identifier: Apache-2.0
"""The Winograd convolution's walk over the output; what multiplies and requantises is a core's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compiler.codegen.builder import I32, PTR, Value
from compiler.kernels.dsp.row_ring import RowRing
from compiler.kernels.kernel import KernelFunction
from compiler.kernels.winograd.transforms import WinogradTransforms


@dataclass(frozen=True)
class WinogradKernel(WinogradTransforms):
    """Row of tiles by row of tiles: groups of tiles, and blocks of output channels in each."""

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
            self.transform_inputs(f, rows, source, f.pointer("values"))
            self._over_records(f, f.offset(output, target), self._stored_block)
            source = self._advanced(f, source, self.depth, "last_input")
            return [source, self._advanced(f, target, self.pixel_bytes, "last_output")]

        f.loop(f.integer("groups"), group, [f.integer("ring_align"), f.const(0)])

    def _strip(self, f: KernelFunction, rows: Value, output: Value) -> None:
        def tile_row(_: Value, carried: list[Value]) -> list[Value]:
            def group(_: Value, carried: list[Value]) -> list[Value]:
                source, values = carried
                self.transform_inputs(f, top, source, values)
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
        self.tiles_back(f, record, output)
        return weights

    def _expanded_block(self, f: KernelFunction, weights: Value, record: Value, output: Value) -> Value:
        weights = self.expand(f, weights)

        def tile_row(_: Value, carried: list[Value]) -> list[Value]:
            def group(_: Value, carried: list[Value]) -> list[Value]:
                target, values = carried
                self.multiply(f, f.pointer("expanded"), values)
                self.tiles_back(f, record, f.offset(row, target))
                return [self._advanced(f, target, self.pixel_bytes, "last_output"), f.offset(values, self.group_bytes)]

            row, values = carried
            values = f.loop(f.integer("groups"), group, [f.const(0), values])[1]
            return [f.offset(row, self.tile * self.row_bytes), values]

        f.loop(self.strip, tile_row, [output, f.pointer("values")])
        return weights
