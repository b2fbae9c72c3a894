# SPDX-License-Identifier: Apache-2.0
"""Float windows: convolution, depthwise convolution and fully connected layers by one walk over the output.

The sums run in the order of the reference (rows, columns, channels of the window; then the bias; then the clamp) with
separate multiplications and additions, so every core gives the reference's bits, with or without a float unit. Taps in
the padding are left out by tables of runs: consecutive windows of an axis that are cut alike.

Source: TensorFlow Lite, kernels/internal/reference/{conv,depthwiseconv_float,fully_connected}.h.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from compiler.codegen.builder import Function, Value
from compiler.kernels.kernel import Kernel, KernelFunction

FLOAT_BYTES = 4
RUN_WORDS = 6
LARGEST = float(np.finfo(np.float32).max)
INFINITY_BITS = 0x7F800000


def float_bits(value: float) -> int:
    """The bits of a value's float32 form, as an unsigned integer."""
    return int(np.float32(value).view(np.uint32))


def clamp(f: Function, value: Value, minimum: float, maximum: float) -> Value:
    """min(max(value, minimum), maximum) with the reference's NaN and signed-zero results.

    It works on the bits: floats of one sign are ordered as integers, which spares soft-float cores the comparison
    calls. Needs minimum <= 0 < maximum; infinite bounds stand for the largest finite value, as in the reference.
    """
    minimum, maximum = max(minimum, -LARGEST), min(maximum, LARGEST)
    if not minimum <= 0 < maximum:
        raise ValueError(f"a clamp to {minimum}..{maximum} does not hold zero")
    bits = f.bits(value)
    if minimum == -LARGEST and maximum == LARGEST:
        # An infinity less one unit is the largest finite value of its sign.
        infinite = f.compare("==", f.shl(bits, 1), INFINITY_BITS << 1)
        return f.from_bits(f.sub(bits, f.zext(infinite)))
    sign = 1 << 31
    for bound, infinity, result in (
        (sign | float_bits(-minimum), sign | INFINITY_BITS, float_bits(minimum + 0.0)),
        (float_bits(maximum), INFINITY_BITS, float_bits(maximum)),
    ):
        beyond = f.compare_unsigned("<", f.sub(bits, bound + 1), infinity - bound)
        bits = f.select(beyond, f.const(result), bits)
    return f.from_bits(bits)


@dataclass(frozen=True)
class _Place:
    """Where the walk stands: the window's first tap, its weights, and its first output."""

    input: Value
    weights: Value
    output: Value


@dataclass(frozen=True)
class FloatWindow(Kernel):
    """Walks row runs, rows, column runs, blocks of `pixels` adjacent outputs, groups, blocks of `channels` channels.

    `rows` and `columns` are tables of runs: repeat, taps, length, input, weight and output offset (bytes). A tap has
    `length` contiguous input elements. With `lanes` the channels of a block read one input element each (depthwise),
    else all read the same elements. Weights are packed [group][block][row][tap][element][channel].
    """

    channels: int
    pixels: int
    lanes: bool
    minimum: float
    maximum: float

    parameters: ClassVar[tuple[str, ...]] = (
        "input", "weights", "bias", "output",
        "rows", "row_runs", "row_input_step", "row_output_step",
        "columns", "column_runs", "pixel_input_step", "pixel_output_step",
        "groups", "group_input_step", "group_output_step", "blocks", "block_weight_step",
        "tap_row_input_step", "tap_row_weight_step", "tap_input_step",
    )  # fmt: skip

    @property
    def name(self) -> str:
        bounds = "_".join(f"{float_bits(v):x}" for v in (self.minimum, self.maximum))
        return f"float_{'lanes' if self.lanes else 'window'}_{self.channels}x{self.pixels}_{bounds}"

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
            source, weights, bias, output = carried

            def block(_: Value, carried: list[Value]) -> list[Value]:
                weights, bias, output = carried
                self._finish(f, self._sums(f, source, weights, row_taps, taps, length), bias, output)
                size = FLOAT_BYTES * self.channels
                return [f.offset(weights, f.integer("block_weight_step")), f.offset(bias, size), f.offset(output, size)]

            weights, bias, _ = f.loop(f.integer("blocks"), block, [weights, bias, output])
            return [
                f.offset(source, f.integer("group_input_step")), weights, bias,
                f.offset(output, f.integer("group_output_step")),
            ]  # fmt: skip

        f.loop(f.integer("groups"), group, [place.input, place.weights, f.pointer("bias"), place.output])

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

        zeros: list[Value] = [f.float(0.0)] * (self.pixels * self.channels)
        return f.loop(row_taps, tap_row, [source, weights, *zeros])[2:]

    def _lane_taps(
        self, f: KernelFunction, pointers: list[Value], weights: Value, sums: list[Value], taps: Value, length: Value
    ) -> list[Value]:
        def tap(_: Value, carried: list[Value]) -> list[Value]:
            weights, *rest = carried
            pointers, sums = rest[: self.pixels], rest[self.pixels :]
            values = [f.load_f32(p, FLOAT_BYTES * c) for p in pointers for c in range(self.channels)]
            sums = self._accumulate(f, values, weights, sums)
            step = f.integer("tap_input_step")
            return [f.offset(weights, FLOAT_BYTES * self.channels), *(f.offset(p, step) for p in pointers), *sums]

        return f.loop(taps, tap, [weights, *pointers, *sums])[1 + self.pixels :]

    def _broadcast_taps(
        self, f: KernelFunction, pointers: list[Value], weights: Value, sums: list[Value], taps: Value, length: Value
    ) -> list[Value]:
        def element(_: Value, carried: list[Value]) -> list[Value]:
            weights, *rest = carried
            pointers, sums = rest[: self.pixels], rest[self.pixels :]
            values = [x for p in pointers for x in [f.load_f32(p)] * self.channels]
            sums = self._accumulate(f, values, weights, sums)
            ahead = [f.offset(p, FLOAT_BYTES) for p in pointers]
            return [f.offset(weights, FLOAT_BYTES * self.channels), *ahead, *sums]

        def tap(_: Value, carried: list[Value]) -> list[Value]:
            weights, *rest = carried
            pointers, sums = rest[: self.pixels], rest[self.pixels :]
            weights, *rest = f.loop(length, element, [weights, *pointers, *sums])
            step = f.integer("tap_input_step")
            return [weights, *(f.offset(p, step) for p in pointers), *rest[self.pixels :]]

        return f.loop(taps, tap, [weights, *pointers, *sums])[1 + self.pixels :]

    def _accumulate(self, f: KernelFunction, values: list[Value], weights: Value, sums: list[Value]) -> list[Value]:
        factors = [f.load_f32(weights, FLOAT_BYTES * c) for c in range(self.channels)] * self.pixels
        return [f.fadd(s, f.fmul(x, w)) for s, x, w in zip(sums, values, factors, strict=True)]

    def _finish(self, f: KernelFunction, sums: list[Value], bias: Value, output: Value) -> None:
        """Adds the bias, clamps and stores one channel block of all pixels."""
        biases = [f.load_f32(bias, FLOAT_BYTES * c) for c in range(self.channels)]
        for pixel in range(self.pixels):
            if pixel:
                output = f.offset(output, f.integer("pixel_output_step"))
            for c, addend in enumerate(biases):
                total = f.fadd(sums[pixel * self.channels + c], addend)
                f.store(clamp(f, total, self.minimum, self.maximum), output, FLOAT_BYTES * c)


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
