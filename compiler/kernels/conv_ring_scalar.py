# SPDX-License-Identifier: Apache-2.0
"""Convolution on scalar cores: blocks of output channels by pixels, over a ring of input rows or the input itself.

The ring holds the rows that the current output row needs, padded with the input's zero point, so that the inner loop
has no border. A window is a list of segments, each contiguous in memory: one a kernel row (one a tap where the kernel
is dilated horizontally). Pointwise layers and fully connected ones are windows of one segment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from compiler.codegen.builder import I32, PTR, Value
from compiler.kernels.kernel import CompileOptions, Kernel, KernelFunction
from compiler.kernels.scalar_core import ScalarCore
from compiler.kernels.scalar_requantize import WORDS, Form, Requantizer, load_channel

FIELDS = (
    "input",
    "output",
    "scratch",
    "weights",
    "blocks",
    "block_count",  # blocks of output channels
    "output_height",
    "group_count",  # groups of output pixels in a row
    "group_input",  # bytes from one group's input to the next one's, and from its output
    "group_output",
    "last_input",  # offsets of the last group, which may overlap the one before
    "last_output",
    "output_row",  # bytes of an output row
    "pixel_input",  # bytes between the windows of neighbouring pixels, and between their outputs
    "pixel_output",
    "segment_count",
    "segment_bytes",
    "product_bytes",  # of the inner loop: a segment, or the gathered window
    "gathered",  # scratch for the windows of a group
    "segment_rows",  # kernel rows
    "segment_columns",  # segments in a kernel row, and the bytes between them
    "segment_step",
    "row_step",  # bytes between the rows of a window
    "input_step",  # without a ring: input bytes between output rows
    "ring",  # scratch behind the segment pointers; its rows' pitch and its bytes
    "ring_row",
    "ring_bytes",
    "ring_lead",  # offset of the first window, and of the input, in a ring row
    "ring_interior",
    "input_row",  # bytes of an input row, and its copies (words or bytes)
    "input_units",
    "input_height",
    "pad_top",
    "row_stride",  # input rows between output rows
    "row_span",  # input rows of a window
    "fill",  # the padding in all four bytes
    "sum_factor",
    "clamp_size",
    "clamp_minimum",
    "clamp_offset",
)


@dataclass(frozen=True)
class ConvScalar(Kernel):
    """A block is `channels` x `pixels`; `unroll` divides the bytes of the inner loop.

    `ring`: rows are copied into a ring, by words if `words`. `single`: the window is one segment. `gather`: segments
    are so short that each window is copied together first, this many bytes at a time (0: not at all). `sums`: the
    sum of a window's inputs times `sum_factor` is subtracted (biased weights, a filter zero point). `pitch`: bytes
    between the windows of a block as a constant (0: in the table).
    """

    core: ScalarCore
    form: Form
    channels: int
    pixels: int
    unroll: int
    ring: bool
    words: bool
    single: bool
    gather: int
    sums: bool
    pitch: int

    parameters: ClassVar[tuple[str, ...]] = FIELDS

    @property
    def options(self) -> CompileOptions:  # type: ignore[override]
        return self.core.options

    @property
    def name(self) -> str:
        flags = "".join(
            letter for letter, on in zip("rwos", (self.ring, self.words, self.single, self.sums), strict=True) if on
        )
        block = f"{self.channels}x{self.pixels}u{self.unroll}{f'p{self.pitch}' if self.pitch else ''}"
        flags += f"g{self.gather}" if self.gather else ""
        return "_".join(filter(None, ["conv", self.core.tag, block, self.form.tag, flags]))

    @property
    def block_bytes(self) -> int:
        """A block's record: its offset in the output pixel, then each channel's words."""
        return 4 + 4 * WORDS * self.channels

    def build(self, f: KernelFunction) -> None:
        if not self.ring:

            def direct_row(_: Value, carried: list[Value]) -> list[Value]:
                source, output = carried
                first = source if self.single else self._segments(f, source)
                self._row(f, first, output)
                return [f.offset(source, f.integer("input_step")), f.offset(output, f.integer("output_row"))]

            f.loop(f.integer("output_height"), direct_row, [f.pointer("input"), f.pointer("output")])
            return
        self._fill(f, f.pointer("ring"), f.integer("ring_bytes"))
        negative = f.sub(0, f.integer("pad_top"))
        source = f.offset(f.pointer("input"), f.mul(negative, f.integer("input_row")))

        def ring_row(_: Value, carried: list[Value]) -> list[Value]:
            count, line, source, slot, output = carried
            line, source, slot = f.loop(count, lambda _, c: self._load_row(f, *c), [line, source, slot])
            base = f.offset(f.offset(f.pointer("ring"), slot), f.integer("ring_lead"))
            self._row(f, base if self.single else self._ring_segments(f, slot), output)
            return [f.integer("row_stride"), line, source, slot, f.offset(output, f.integer("output_row"))]

        start = [f.integer("row_span"), negative, source, f.const(0), f.pointer("output")]
        f.loop(f.integer("output_height"), ring_row, start)

    # -- rows -----------------------------------------------------------------------------------------------------

    def _fill(self, f: KernelFunction, start: Value, size: Value) -> None:
        fill = f.integer("fill")

        def word(pointer: Value, _: list[Value]) -> tuple[Value, list[Value]]:
            f.store(fill, pointer)
            return f.offset(pointer, 4), []

        f.loop_until(f.offset(start, size), start, word)

    def _load_row(self, f: KernelFunction, line: Value, source: Value, slot: Value) -> list[Value]:
        """Copies input row `line` into the ring at `slot`, or fills that with padding."""
        target = f.offset(f.offset(f.pointer("ring"), slot), f.integer("ring_interior"))
        size = 4 if self.words else 1

        def each(value: Callable[[Value], Value]) -> None:
            def unit(_: Value, carried: list[Value]) -> list[Value]:
                read, write = carried
                made = value(read)
                if self.words:
                    f.store(made, write)
                else:
                    f.store_i8(made, write)
                return [f.offset(read, size), f.offset(write, size)]

            f.loop(f.integer("input_units"), unit, [source, target])

        def copied(read: Value) -> Value:
            value = f.load(I32, read) if self.words else f.load_u8(read)
            return f.xor(value, -0x7F7F7F80) if self.core.unsigned_inputs else value

        fill = f.integer("fill")
        inside = f.compare_unsigned("<", line, f.integer("input_height"))
        f.branch(inside, lambda: each(copied), lambda: each(lambda _: fill))
        following = f.add(slot, f.integer("ring_row"))
        wrapped = f.select(f.compare("==", following, f.integer("ring_bytes")), 0, following)
        return [f.add(line, 1), f.offset(source, f.integer("input_row")), wrapped]

    def _segments(self, f: KernelFunction, source: Value) -> Value:
        """Writes the segment pointers of windows at `source`; returns where they are."""

        def row(_: Value, carried: list[Value]) -> list[Value]:
            pointers, base = carried
            return [self._columns(f, pointers, base), f.offset(base, f.integer("row_step"))]

        f.loop(f.integer("segment_rows"), row, [f.pointer("scratch"), source])
        return f.pointer("scratch")

    def _ring_segments(self, f: KernelFunction, slot: Value) -> Value:
        """As `_segments`, from the ring's oldest row on."""

        def row(_: Value, carried: list[Value]) -> list[Value]:
            pointers, at = carried
            base = f.offset(f.offset(f.pointer("ring"), at), f.integer("ring_lead"))
            after = self._columns(f, pointers, base)
            following = f.add(at, f.integer("row_step"))
            size = f.integer("ring_bytes")
            beyond = f.compare_unsigned(">=", following, size)
            return [after, f.select(beyond, f.sub(following, size), following)]

        f.loop(f.integer("segment_rows"), row, [f.pointer("scratch"), slot])
        return f.pointer("scratch")

    def _columns(self, f: KernelFunction, pointers: Value, base: Value) -> Value:
        def column(_: Value, carried: list[Value]) -> list[Value]:
            pointer, segment = carried
            f.store(segment, pointer)
            return [f.offset(pointer, 4), f.offset(segment, f.integer("segment_step"))]

        return f.loop(f.integer("segment_columns"), column, [pointers, base])[0]

    def _row(self, f: KernelFunction, first: Value, output: Value) -> None:
        """One output row; `first` is the only segment's pointer, or where the pointers are."""

        def group(_: Value, carried: list[Value]) -> list[Value]:
            at, to = carried
            self._group(f, first, at, f.offset(output, to))

            def advanced(offset: Value, step: str, last: str) -> Value:
                following, limit = f.add(offset, f.integer(step)), f.integer(last)
                return f.select(f.compare_unsigned("<", following, limit), following, limit)

            return [advanced(at, "group_input", "last_input"), advanced(to, "group_output", "last_output")]

        f.loop(f.integer("group_count"), group, [f.const(0), f.const(0)])

    # -- blocks ---------------------------------------------------------------------------------------------------

    def _group(self, f: KernelFunction, first: Value, at: Value, output: Value) -> None:
        if self.gather:
            first, at = self._gathered(f, first, at), f.const(0)
        corrections = self._window_sums(f, first, at) if self.sums else None

        def block(_: Value, carried: list[Value]) -> list[Value]:
            weights, record = carried
            starts = [f.load(I32, record, 4 + 4 * WORDS * j) for j in range(self.channels)]
            accumulators = [
                f.sub(start, corrections[p]) if corrections else start for start in starts for p in range(self.pixels)
            ]

            def segment(base: Value, state: list[Value]) -> list[Value]:
                return self._segment(f, f.offset(base, at), state)

            weights, *accumulators = self._over_segments(f, first, segment, [weights, *accumulators])
            self._store(f, accumulators, record, output)
            return [weights, f.offset(record, self.block_bytes)]

        f.loop(f.integer("block_count"), block, [f.pointer("weights"), f.pointer("blocks")])

    def _over_segments(
        self, f: KernelFunction, first: Value, body: Callable[[Value, list[Value]], list[Value]], state: list[Value]
    ) -> list[Value]:
        if self.single or self.gather:
            return body(first, state)

        def one(_: Value, carried: list[Value]) -> list[Value]:
            pointer, *rest = carried
            return [f.offset(pointer, 4), *body(f.load(PTR, pointer), rest)]

        return f.loop(f.integer("segment_count"), one, [first, *state])[1:]

    def _gathered(self, f: KernelFunction, first: Value, at: Value) -> Value:
        """Copies the windows of a group one behind the other; returns where they are."""

        def pixel(_: Value, carried: list[Value]) -> list[Value]:
            target, at = carried

            def segment(_: Value, carried: list[Value]) -> list[Value]:
                pointer, target = carried
                start = f.offset(f.load(PTR, pointer), at)

                def unit(source: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
                    (target,) = carried
                    for u in range(self.gather):
                        f.store_i8(f.load_u8(source, u, volatile=True), target, u)
                    return f.offset(source, self.gather), [f.offset(target, self.gather)]

                end = f.offset(start, f.integer("segment_bytes"))
                return [f.offset(pointer, 4), *f.loop_until(end, start, unit, [target])[1]]

            f.loop(f.integer("segment_count"), segment, [first, target])
            return [f.offset(target, f.integer("product_bytes")), f.add(at, f.integer("pixel_input"))]

        f.loop(self.pixels, pixel, [f.pointer("gathered"), at])
        return f.pointer("gathered")

    def _pixels(self, f: KernelFunction, start: Value, step: str) -> list[Value]:
        pointers = [start]
        for _ in range(self.pixels - 1):
            pointers.append(f.offset(pointers[-1], f.integer(step)))
        return pointers

    def _windows(self, f: KernelFunction, start: Value) -> list[Value]:
        return self._pixels(f, start, "product_bytes" if self.gather else "pixel_input")

    def _segment(self, f: KernelFunction, start: Value, state: list[Value]) -> list[Value]:
        weights, *accumulators = state
        pixels = [start] if self.pitch else self._windows(f, start)
        count = len(pixels)

        def step(pointer: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            others, weights, sums = carried[: count - 1], carried[count - 1], carried[count:]
            inputs = [pointer, *others]
            for u in range(self.unroll):
                if u:
                    f.split()
                factors = [self.core.load_weight(f, weights, u * self.channels + j) for j in range(self.channels)]
                for p in range(self.pixels):
                    x = self.core.load_input(f, *((pointer, p * self.pitch + u) if self.pitch else (inputs[p], u)))
                    for j in range(self.channels):
                        i = j * self.pixels + p
                        sums[i] = f.add(sums[i], self.core.multiply(f, x, factors[j]))
            moved = [f.offset(other, self.unroll) for other in others]
            return f.offset(pointer, self.unroll), [*moved, f.offset(weights, self.unroll * self.channels), *sums]

        end = f.offset(start, f.integer("product_bytes"))
        _, after = f.loop_until(end, start, step, [*pixels[1:], weights, *accumulators])
        return after[count - 1 :]

    def _window_sums(self, f: KernelFunction, first: Value, at: Value) -> list[Value]:
        """The sum of each pixel's window, times `sum_factor`."""

        def segment(base: Value, sums: list[Value]) -> list[Value]:
            start = f.offset(base, at)
            made = []
            for pixel, total in zip(self._windows(f, start), sums, strict=True):

                def step(pointer: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
                    (total,) = carried
                    for u in range(self.unroll):
                        total = f.add(total, self.core.load_input(f, pointer, u))
                    return f.offset(pointer, self.unroll), [total]

                end = f.offset(pixel, f.integer("product_bytes"))
                made += f.loop_until(end, pixel, step, [total])[1]
            return made

        sums = self._over_segments(f, first, segment, [f.const(0)] * self.pixels)
        return [self.core.multiply(f, total, f.integer("sum_factor")) for total in sums]

    def _store(self, f: KernelFunction, accumulators: list[Value], record: Value, output: Value) -> None:
        requantizer = Requantizer(self.core, self.form)
        targets = self._pixels(f, f.offset(output, f.load(I32, record)), "pixel_output")
        clamp = (f.integer("clamp_size"), f.integer("clamp_minimum"), f.integer("clamp_offset"))
        for j in range(self.channels):
            channel = load_channel(f, record, 4 + 4 * WORDS * j)
            for p in range(self.pixels):
                f.store_i8(requantizer.emit(f, accumulators[j * self.pixels + p], channel, clamp), targets[p], j)
