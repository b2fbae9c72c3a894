# SPDX-License-Identifier: Apache-2.0
"""Convolution on scalar cores with one multiplication a tap, from int8 weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from compiler.codegen.builder import PTR, Value
from compiler.kernels.kernel import KernelFunction
from compiler.kernels.scalar.conv_rows import FIELDS, RowKernel


@dataclass(frozen=True)
class ConvScalar(RowKernel):
    """`unroll` divides the bytes of the inner loop.

    `gather`: segments are so short that each window is copied together first, this many bytes at a time (0: not at
    all). `sums`: the sum of a window's inputs times `sum_factor` is subtracted (biased weights, a filter zero point).
    `pitch`: bytes between the windows of a block as a constant (0: in the table). `small`: tables are lean.
    """

    unroll: int
    gather: int
    sums: bool
    pitch: int
    small: bool = False

    parameters: ClassVar[tuple[str, ...]] = (
        *FIELDS,
        "product_bytes",  # of the inner loop: a segment, or the gathered window
        "gathered",  # scratch for the windows of a group
        "sum_factor",
        "squares",
    )

    @property
    def lean(self) -> bool:
        return self.small

    @property
    def name(self) -> str:
        block = f"{self.channels}x{self.pixels}u{self.unroll}{f'p{self.pitch}' if self.pitch else ''}"
        flags = f"{self.copy.value}{'s' if self.single else ''}{'c' if self.shared else ''}{'t' if self.sums else ''}"
        flags += f"{f'g{self.gather}' if self.gather else ''}{'z' * self.small}"
        return f"conv_{self.core.tag}_{block}_{self.form.tag}_{flags}"

    def row(self, f: KernelFunction, first: Value, output: Value) -> None:
        def group(at: Value, to: Value, _: list[Value]) -> list[Value]:
            self._group(f, first, at, f.offset(output, to))
            return []

        self.over_groups(f, group)

    def _group(self, f: KernelFunction, first: Value, at: Value, output: Value) -> None:
        if self.gather:
            first, at = self._gathered(f, first, at), f.const(0)
        corrections = self._window_sums(f, first, at) if self.sums else None

        def block(_: Value, carried: list[Value]) -> list[Value]:
            weights, record = carried
            starts = self.biases(f, record)
            accumulators = [
                f.sub(start, corrections[p]) if corrections else start for start in starts for p in range(self.pixels)
            ]

            def segment(base: Value, state: list[Value]) -> list[Value]:
                return self._segment(f, f.offset(base, at), state)

            weights, *accumulators = self._over_windows(f, first, segment, [weights, *accumulators])
            self.store(f, accumulators, record, output)
            return [weights, f.offset(record, self.block_bytes)]

        f.loop(f.integer("block_count"), block, [f.pointer("weights"), f.pointer("blocks")])

    def _over_windows(
        self, f: KernelFunction, first: Value, body: Callable[[Value, list[Value]], list[Value]], state: list[Value]
    ) -> list[Value]:
        return body(first, state) if self.gather else self.over_segments(f, first, body, state)

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

    def _windows(self, f: KernelFunction, start: Value) -> list[Value]:
        return self.spaced(f, start, "product_bytes" if self.gather else "pixel_input")

    def _segment(self, f: KernelFunction, start: Value, state: list[Value]) -> list[Value]:
        weights, *accumulators = state
        pixels = [start] if self.pitch else self._windows(f, start)
        count, squares = len(pixels), self.core.squares(f, self.lean)

        def step(pointer: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            others, weights, sums = carried[: count - 1], carried[count - 1], carried[count:]
            inputs = [pointer, *others]
            for u in range(self.unroll):
                if u:
                    f.split()
                loads = [
                    partial(self.core.load_weight, f, weights, u * self.channels + j) for j in range(self.channels)
                ]
                # What pixels share is held; else a weight is loaded where it is used.
                held = [load() for load in loads] if self.pixels > 1 else []
                for p in range(self.pixels):
                    x = self.core.load_input(f, *((pointer, p * self.pitch + u) if self.pitch else (inputs[p], u)))
                    factor = self.core.factor(f, x, squares)
                    for j in range(self.channels):
                        i, weight = j * self.pixels + p, held[j] if held else loads[j]()
                        sums[i] = self.core.add_product(f, sums[i], factor, weight)
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

        sums = self._over_windows(f, first, segment, [f.const(0)] * self.pixels)
        return [self.core.multiply(f, total, f.integer("sum_factor")) for total in sums]
