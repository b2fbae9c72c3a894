# SPDX-License-Identifier: Apache-2.0
"""What the convolution kernels of scalar cores have in common: the ring of input rows, segments, blocks, stores.

The ring holds the rows that the current output row needs, padded with the input's zero point, so that the inner loop
has no border. A window is a list of segments, each contiguous in memory: one a kernel row (one a tap where the kernel
is dilated horizontally). Pointwise layers and fully connected ones are windows of one segment.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from compiler.codegen.builder import I32, PTR, Value
from compiler.kernels.kernel import CompileOptions, Kernel, KernelFunction
from compiler.kernels.scalar.core import ScalarCore
from compiler.kernels.scalar.requantize import REQUANTIZE_FIELDS, WORDS, Form, Requantizer, load_channel

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
    "first_input",  # the same for the first group, which the second one may overlap
    "first_output",
    "output_row",  # bytes of an output row
    "pixel_input",  # bytes between the windows of neighbouring pixels, and between their outputs
    "pixel_output",
    "segment_count",
    "segment_bytes",
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
    "channel_bias",  # unused: here begin a channel's words where all channels share them
    "channel_multiplier",
    "channel_rounding",
    "channel_shift",
    *REQUANTIZE_FIELDS,
)


class Copy(Enum):
    """How input rows get into the ring."""

    NONE = "o"
    """There is no ring: windows are read from the input itself."""
    BYTES = "b"
    WORDS = "w"
    PAIRS = "p"
    """Neighbouring values a, b as the word a + b * 2**16."""


@dataclass(frozen=True)
class RowKernel(Kernel):
    """A block is `channels` x `pixels`. `single`: the window is one segment. `shared`: channels have one
    requantisation, which is in the table; their records are biases. `mirrored`: the ring is there twice, so that any
    rows in sequence are contiguous. `edges`: a row's first value is the second one of a pair, its last the first."""

    core: ScalarCore
    form: Form
    channels: int
    pixels: int
    copy: Copy
    single: bool
    shared: bool
    mirrored: bool = field(default=False, kw_only=True)
    edges: tuple[bool, bool] = field(default=(False, False), kw_only=True)

    @property
    def options(self) -> CompileOptions:  # type: ignore[override]
        return self.core.options

    @property
    def block_bytes(self) -> int:
        """A block's record: its offset in the output pixel, then each channel's words."""
        return 4 + self.channel_bytes * self.channels

    @property
    def channel_bytes(self) -> int:
        return 4 if self.shared else 4 * WORDS

    def biases(self, f: KernelFunction, record: Value) -> list[Value]:
        return [f.load(I32, record, 4 + self.channel_bytes * j) for j in range(self.channels)]

    @abstractmethod
    def row(self, f: KernelFunction, first: Value, output: Value) -> None:
        """Emits one output row; `first` is the only segment's pointer, or where the pointers are."""

    def build(self, f: KernelFunction) -> None:
        if self.copy is Copy.NONE:

            def direct_row(_: Value, carried: list[Value]) -> list[Value]:
                source, output = carried
                first = source if self.single else self._segments(f, source)
                self.row(f, first, output)
                return [f.offset(source, f.integer("input_step")), f.offset(output, f.integer("output_row"))]

            f.loop(f.integer("output_height"), direct_row, [f.pointer("input"), f.pointer("output")])
            return
        size = f.integer("ring_bytes")
        self._fill(f, f.pointer("ring"), f.shl(size, 1) if self.mirrored else size)
        negative = f.sub(0, f.integer("pad_top"))
        source = f.offset(f.pointer("input"), f.mul(negative, f.integer("input_row")))

        def ring_row(_: Value, carried: list[Value]) -> list[Value]:
            count, line, source, slot, output = carried
            line, source, slot = f.loop(count, lambda _, c: self._load_row(f, *c), [line, source, slot])
            base = f.offset(f.offset(f.pointer("ring"), slot), f.integer("ring_lead"))
            self.row(f, base if self.single else self._ring_segments(f, slot), output)
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
        targets = [target, f.offset(target, f.integer("ring_bytes"))] if self.mirrored else [target]
        inside = f.compare_unsigned("<", line, f.integer("input_height"))
        f.branch(inside, lambda: self._copy_row(f, source, targets), lambda: self._fill_row(f, source, targets))
        following = f.add(slot, f.integer("ring_row"))
        wrapped = f.select(f.compare("==", following, f.integer("ring_bytes")), 0, following)
        return [f.add(line, 1), f.offset(source, f.integer("input_row")), wrapped]

    def _units(
        self, f: KernelFunction, value: Callable[[Value], Value], source: Value, targets: list[Value]
    ) -> list[Value]:
        """`value(read)` for the units of a row; returns where reading and writing ended."""
        read_bytes, written_bytes = {Copy.WORDS: (4, 4), Copy.PAIRS: (2, 4)}.get(self.copy, (1, 1))

        def unit(_: Value, carried: list[Value]) -> list[Value]:
            read, *writes = carried
            made = value(read)
            for write in writes:
                if written_bytes == 4:
                    f.store(made, write)
                else:
                    f.store_i8(made, write)
            return [f.offset(read, read_bytes), *(f.offset(write, written_bytes) for write in writes)]

        return f.loop(f.integer("input_units"), unit, [source, *targets])

    def _copied(self, f: KernelFunction, read: Value) -> Value:
        if self.copy is Copy.PAIRS:
            return f.add(f.load_s8(read), f.shl(f.load_s8(read, 1), 16))
        value = f.load(I32, read) if self.copy is Copy.WORDS else f.load_u8(read)
        return f.xor(value, -0x7F7F7F80) if self.core.unsigned_inputs else value

    def _copy_row(self, f: KernelFunction, source: Value, targets: list[Value]) -> None:
        first, last = self.edges
        padding = f.ashr(f.shl(f.integer("fill"), 16), 16) if first or last else f.const(0)
        if first:
            self._store_all(f, f.add(padding, f.shl(f.load_s8(source), 16)), targets)
            source, targets = f.offset(source, 1), [f.offset(target, 4) for target in targets]
        source, *targets = self._units(f, lambda read: self._copied(f, read), source, targets)
        if last:
            self._store_all(f, f.add(f.load_s8(source), f.shl(padding, 16)), targets)

    def _fill_row(self, f: KernelFunction, source: Value, targets: list[Value]) -> None:
        fill = f.integer("fill")
        _, *targets = self._units(f, lambda _: fill, source, targets)
        for _ in range(sum(self.edges)):
            self._store_all(f, fill, targets)
            targets = [f.offset(target, 4) for target in targets]

    def _store_all(self, f: KernelFunction, value: Value, targets: list[Value]) -> None:
        for target in targets:
            f.store(value, target)

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

    def over_groups(
        self,
        f: KernelFunction,
        body: Callable[[Value, Value, list[Value]], list[Value]],
        carried: Sequence[Value] = (),
    ) -> list[Value]:
        """`body(input offset, output offset, carried) -> carried` for the groups of pixels of a row."""

        def group(_: Value, state: list[Value]) -> list[Value]:
            at, to, step_input, step_output, *rest = state
            rest = body(at, to, rest)
            steps = [f.integer("group_input"), f.integer("group_output")]
            return [f.add(at, step_input), f.add(to, step_output), *steps, *rest]

        kind = "group" if self.lean and self.pixels == 1 else "first"
        first = [f.integer(f"{kind}_input"), f.integer(f"{kind}_output")]
        return f.loop(f.integer("group_count"), group, [f.const(0), f.const(0), *first, *carried])[4:]

    def over_segments(
        self, f: KernelFunction, first: Value, body: Callable[[Value, list[Value]], list[Value]], state: list[Value]
    ) -> list[Value]:
        if self.single:
            return body(first, state)

        def one(_: Value, carried: list[Value]) -> list[Value]:
            pointer, *rest = carried
            return [f.offset(pointer, 4), *body(f.load(PTR, pointer), rest)]

        return f.loop(f.integer("segment_count"), one, [first, *state])[1:]

    def spaced(self, f: KernelFunction, start: Value, step: str) -> list[Value]:
        pointers = [start]
        for _ in range(self.pixels - 1):
            pointers.append(f.offset(pointers[-1], f.integer(step)))
        return pointers

    def store(self, f: KernelFunction, accumulators: list[Value], record: Value, output: Value) -> None:
        targets = self.spaced(f, f.offset(output, f.load(I32, record)), "pixel_output")
        requantized = Requantizer(self.core, self.form).emitter(f)
        common = load_channel(f, self.form, f.arguments[0], 4 * FIELDS.index("channel_bias")) if self.shared else None
        for j in range(self.channels):
            channel = common or load_channel(f, self.form, record, 4 + self.channel_bytes * j)
            for p in range(self.pixels):
                f.store_i8(requantized(accumulators[j * self.pixels + p], channel), targets[p], j)
