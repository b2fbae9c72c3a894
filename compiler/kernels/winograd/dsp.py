# SPDX-License-Identifier: Apache-2.0
"""Winograd convolution with SMLAD: weights are int16 pairs in flash, products of two channels by one or two tiles."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.codegen.builder import I32, Operand, Value
from compiler.kernels.dsp.instructions import extend_even, smlad
from compiler.kernels.dsp.requantize import Requantizer
from compiler.kernels.kernel import CompileOptions, KernelFunction
from compiler.kernels.winograd.kernel import WinogradKernel

_FLAGS = ("-enable-misched=false", "-disable-lsr", "-disable-machine-licm", "-greedy-reverse-local-assignment")
"""Measured: 0.530 -> 0.500 instructions per MAC (3x3, 16 channels, one tile at a time)."""
MOST_QUADS = 8
"""Quads of input channels that are multiplied without a loop."""


@dataclass(frozen=True)
class WinogradDsp(WinogradKernel):
    """`requantizer` without its factor, which the inverses bring: a channel's `inverse` field is the offset of its
    first inverse, in front of the requantizer's fields (but for the bias)."""

    requantizer: Requantizer

    @property
    def name(self) -> str:
        return f"winograd_dsp_{self.shape_name}_{self.requantizer.name}"

    @property
    def options(self) -> CompileOptions:  # type: ignore[override]
        return CompileOptions(flags=_FLAGS)

    @property
    def fields(self) -> tuple[str, ...]:
        return ("inverse", *(field for field in self.requantizer.fields if field != "bias"))

    @property
    def channel_bytes(self) -> int:
        return 4 * len(self.fields)

    def lanes(self, f: KernelFunction, words: list[Value]) -> tuple[list[Value], list[Value]]:
        even = [f.intrinsic("llvm.arm.uxtb16", I32, [word]) for word in words]
        odd = [f.intrinsic("llvm.arm.uxtb16", I32, [f.rotate_left(word, 24)]) for word in words]
        return even, odd

    @property
    def rolled(self) -> tuple[bool, bool]:
        # Where weights are transformed on the fly, flash is short.
        return bool(self.strip), bool(self.strip)

    @property
    def channel_step(self) -> int:
        return 8

    def expand_quad(self, f: KernelFunction, words: list[Value], to: Value) -> None:
        def add(a: Value, b: Value) -> Value:
            return f.intrinsic("llvm.arm.sadd16", I32, [a, b])

        def sub(a: Value, b: Value) -> Value:
            return f.intrinsic("llvm.arm.ssub16", I32, [a, b])

        def store(value: Value, to: Value, at: int) -> None:
            f.store(value, to, at)

        def half(_: Value, carried: list[Value]) -> list[Value]:
            to, shift = carried
            pairs = [extend_even(f, f.lshr(word, shift)) for word in words]
            self.expand_taps(f, pairs, to, add, sub, store, rows=2)
            return [f.offset(to, 4), f.const(8)]

        f.loop(2, half, [to, f.const(0)])

    def load_quad(self, f: KernelFunction, at: Value, offset: int) -> tuple[Value, Value]:
        return f.load_pair(at, offset)

    def multiply(self, f: KernelFunction, weights: Value, values: Value) -> Value:
        quads = self.depth // 4
        unroll = next(u for u in range(MOST_QUADS, 0, -1) if quads % u == 0)

        def position(values: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            weights, products = carried
            starts = f.load_pair(weights) if self.channels == 2 else (f.load_i32(weights),)
            totals = [start for start in starts for _ in range(self.tiles)]
            weights = f.offset(weights, 4 * self.channels)
            if unroll == quads:
                values, (weights, *totals) = self._quads(f, values, [weights, *totals], unroll)
            else:
                end = f.offset(values, self.position_bytes)
                values, (weights, *totals) = f.loop_until(
                    end, values, lambda at, c: self._quads(f, at, c, unroll), [weights, *totals]
                )
            for c in range(self.channels):
                for t in range(self.tiles):
                    f.store(totals[c * self.tiles + t], products, 4 * (t * self.channels + c))
            return values, [weights, f.offset(products, self.product_bytes)]

        end = f.offset(values, self.group_bytes)
        return f.loop_until(end, values, position, [weights, f.pointer("products")])[1][0]

    def _quads(self, f: KernelFunction, values: Value, carried: list[Value], unroll: int) -> tuple[Value, list[Value]]:
        weights, totals = carried[0], carried[1:]
        for quad in range(unroll):
            pairs = [f.load_pair(weights, 8 * (quad * self.channels + c)) for c in range(self.channels)]
            for t in range(self.tiles):
                x = f.load_pair(values, 8 * (quad * self.tiles + t))
                for half in range(2):
                    for c, pair in enumerate(pairs):
                        i = c * self.tiles + t
                        totals[i] = smlad(f, pair[half], x[half], totals[i])
        behind = f.offset(values, 8 * unroll * self.tiles), f.offset(weights, 8 * unroll * self.channels)
        return behind[0], [behind[1], *totals]

    def store_row(self, f: KernelFunction, sums: list[Value], inverse: Operand, record: Value, output: Value) -> None:
        at = {field: f.load_i32(record, 4 * i, volatile=True) for i, field in enumerate(self.fields)}
        inverses = self.load_inverses(f, at.pop("inverse"), inverse)
        for column, value in enumerate(sums):
            x = f.mul(value, inverses[column])
            f.store_i8(self.requantizer.emit(f, x, at), output, column * self.pixel_bytes)
