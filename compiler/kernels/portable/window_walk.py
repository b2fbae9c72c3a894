# SPDX-License-Identifier: Apache-2.0
"""The walk over the outputs of a sliding window, shared by the float and the hybrid kernels.

Taps in the padding are left out by tables of runs: consecutive windows of an axis that are cut alike.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from compiler.codegen.builder import Value
from compiler.kernels.kernel import CompileOptions, Kernel, KernelFunction

FLOAT_BYTES = 4
RUN_WORDS = 6


@dataclass(frozen=True)
class _Place:
    """Where the walk stands: the window's first tap, its weights, and its first output."""

    input: Value
    weights: Value
    output: Value


@dataclass(frozen=True)
class WindowKernel(Kernel):
    """Walks row runs, rows, column runs, blocks of `pixels` adjacent outputs, groups, blocks of `channels` channels.

    `rows` and `columns` are tables of runs: repeat, taps, length, input, weight and output offset (bytes). A tap has
    `length` times `unroll` contiguous input elements. With `lanes` the channels of a block read one input element each
    (depthwise), else all read the same elements. Weights are packed [group][block][row][tap][element][channel], and
    `records` has what `finish` needs for each block. Outputs are float32.
    """

    # Else the scheduler issues all products ahead of the sums, which costs registers: 1.4 times the instructions.
    options = CompileOptions(flags=("-misched-prera-direction=bottomup",))

    channels: int
    pixels: int
    unroll: int
    lanes: bool
    minimum: float
    maximum: float

    parameters: ClassVar[tuple[str, ...]] = (
        "input", "weights", "records", "output",
        "rows", "row_runs", "row_input_step", "row_output_step",
        "columns", "column_runs", "pixel_input_step", "pixel_output_step",
        "groups", "group_input_step", "group_output_step", "blocks", "block_weight_step",
        "tap_row_input_step", "tap_row_weight_step", "tap_input_step",
    )  # fmt: skip

    @property
    @abstractmethod
    def input_bytes(self) -> int:
        """Bytes of an input element."""

    @property
    @abstractmethod
    def weight_bytes(self) -> int:
        """Bytes of a weight."""

    @property
    @abstractmethod
    def record_bytes(self) -> int:
        """Bytes of a channel block's record."""

    @abstractmethod
    def zero(self, f: KernelFunction) -> Value:
        """An empty sum."""

    @abstractmethod
    def load_input(self, f: KernelFunction, pointer: Value, offset: int) -> Value: ...

    @abstractmethod
    def load_weight(self, f: KernelFunction, pointer: Value, offset: int) -> Value: ...

    @abstractmethod
    def multiply_add(self, f: KernelFunction, total: Value, x: Value, weight: Value) -> Value: ...

    @abstractmethod
    def finish(self, f: KernelFunction, sums: list[Value], record: Value) -> list[Value]:
        """The outputs of a channel block's sums (pixel by pixel)."""

    def build(self, f: KernelFunction) -> None:
        def rows(repeat: Value, row_taps: Value, _: Value, place: _Place) -> None:
            def row(here: _Place) -> None:
                def columns(repeat: Value, taps: Value, length: Value, place: _Place) -> None:
                    steps = [f.mul(f.integer(s), self.pixels) for s in ("pixel_input_step", "pixel_output_step")]
                    _walk(f, repeat, place, steps, lambda at: self._groups(f, at, row_taps, taps, length))

                _runs(f, "columns", "column_runs", here, columns)

            _walk(f, repeat, place, [f.integer("row_input_step"), f.integer("row_output_step")], row)

        start = _Place(f.pointer("input"), f.pointer("weights"), f.pointer("output"))
        _runs(f, "rows", "row_runs", start, rows)

    def _groups(self, f: KernelFunction, place: _Place, row_taps: Value, taps: Value, length: Value) -> None:
        """All channels of one block of pixels."""

        def group(_: Value, carried: list[Value]) -> list[Value]:
            source, weights, record, output = carried

            def block(_: Value, carried: list[Value]) -> list[Value]:
                weights, record, output = carried
                sums = self._sums(f, source, weights, row_taps, taps, length)
                self._store(f, self.finish(f, sums, record), output)
                return [
                    f.offset(weights, f.integer("block_weight_step")),
                    f.offset(record, self.record_bytes),
                    f.offset(output, FLOAT_BYTES * self.channels),
                ]

            weights, record, _ = f.loop(f.integer("blocks"), block, [weights, record, output])
            return [
                f.offset(source, f.integer("group_input_step")), weights, record,
                f.offset(output, f.integer("group_output_step")),
            ]  # fmt: skip

        f.loop(f.integer("groups"), group, [place.input, place.weights, f.pointer("records"), place.output])

    def _sums(
        self, f: KernelFunction, source: Value, weights: Value, row_taps: Value, taps: Value, length: Value
    ) -> list[Value]:
        """The window sums of one channel block, pixel by pixel."""

        def tap_row(_: Value, carried: list[Value]) -> list[Value]:
            row, row_weights, *sums = carried
            pointers = [row]
            for _ in range(1, self.pixels):
                pointers.append(f.offset(pointers[-1], f.integer("pixel_input_step")))
            inner = self._lane_taps if self.lanes else self._broadcast_taps
            sums = inner(f, pointers, row_weights, sums, taps, length)
            steps = f.integer("tap_row_input_step"), f.integer("tap_row_weight_step")
            return [f.offset(row, steps[0]), f.offset(row_weights, steps[1]), *sums]

        zeros = [self.zero(f)] * (self.pixels * self.channels)
        return f.loop(row_taps, tap_row, [source, weights, *zeros])[2:]

    def _lane_taps(
        self, f: KernelFunction, pointers: list[Value], weights: Value, sums: list[Value], taps: Value, length: Value
    ) -> list[Value]:
        def tap(_: Value, carried: list[Value]) -> list[Value]:
            weights, *rest = carried
            pointers, sums = rest[: self.pixels], rest[self.pixels :]
            values = [self.load_input(f, p, self.input_bytes * c) for p in pointers for c in range(self.channels)]
            sums = self._accumulate(f, values, weights, 0, sums)
            step = f.integer("tap_input_step")
            return [f.offset(weights, self.weight_bytes * self.channels), *(f.offset(p, step) for p in pointers), *sums]

        return f.loop(taps, tap, [weights, *pointers, *sums])[1 + self.pixels :]

    def _broadcast_taps(
        self, f: KernelFunction, pointers: list[Value], weights: Value, sums: list[Value], taps: Value, length: Value
    ) -> list[Value]:
        def element(_: Value, carried: list[Value]) -> list[Value]:
            weights, *rest = carried
            pointers, sums = rest[: self.pixels], rest[self.pixels :]
            row = self.weight_bytes * self.channels
            for step in range(self.unroll):
                inputs = [self.load_input(f, p, step * self.input_bytes) for p in pointers]
                values = [x for x in inputs for _ in range(self.channels)]
                sums = self._accumulate(f, values, weights, step * row, sums)
            ahead = [f.offset(p, self.unroll * self.input_bytes) for p in pointers]
            return [f.offset(weights, self.unroll * row), *ahead, *sums]

        def tap(_: Value, carried: list[Value]) -> list[Value]:
            weights, *rest = carried
            pointers, sums = rest[: self.pixels], rest[self.pixels :]
            weights, *rest = f.loop(length, element, [weights, *pointers, *sums])
            step = f.integer("tap_input_step")
            return [weights, *(f.offset(p, step) for p in pointers), *rest[self.pixels :]]

        return f.loop(taps, tap, [weights, *pointers, *sums])[1 + self.pixels :]

    def _accumulate(
        self, f: KernelFunction, values: list[Value], weights: Value, offset: int, sums: list[Value]
    ) -> list[Value]:
        """Adds a product to each sum; the weights are `offset` bytes behind the pointer."""
        factors = [self.load_weight(f, weights, offset + self.weight_bytes * c) for c in range(self.channels)]
        triples = zip(sums, values, factors * self.pixels, strict=True)
        return [self.multiply_add(f, total, x, weight) for total, x, weight in triples]

    def _store(self, f: KernelFunction, results: list[Value], output: Value) -> None:
        for pixel in range(self.pixels):
            if pixel:
                output = f.offset(output, f.integer("pixel_output_step"))
            for c in range(self.channels):
                f.store(results[pixel * self.channels + c], output, FLOAT_BYTES * c)


def _runs(
    f: KernelFunction, table: str, count: str, place: _Place, body: Callable[[Value, Value, Value, _Place], None]
) -> None:
    """Calls `body(repeat, taps, length, place)` for each run of a table."""

    def run(_: Value, carried: list[Value]) -> list[Value]:
        repeat, taps, length, *offsets = (f.load_i32(carried[0], 4 * i) for i in range(RUN_WORDS))
        start = (f.offset(p, o) for p, o in zip((place.input, place.weights, place.output), offsets, strict=True))
        body(repeat, taps, length, _Place(*start))
        return [f.offset(carried[0], 4 * RUN_WORDS)]

    f.loop(f.integer(count), run, [f.pointer(table)])


def _walk(f: KernelFunction, repeat: Value, place: _Place, steps: list[Value], body: Callable[[_Place], None]) -> None:
    """Calls `body` at `repeat` places, `steps` bytes apart in the input and the output."""

    def window(_: Value, carried: list[Value]) -> list[Value]:
        body(_Place(carried[0], place.weights, carried[1]))
        return [f.offset(p, s) for p, s in zip(carried, steps, strict=True)]

    f.loop(repeat, window, [place.input, place.output])
