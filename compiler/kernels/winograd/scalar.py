# SPDX-License-Identifier: Apache-2.0
"""Winograd convolution on scalar cores: weights are int16 in flash, one multiplication a product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from compiler.codegen.builder import Operand, Value
from compiler.kernels.kernel import CompileOptions, KernelFunction
from compiler.kernels.scalar.clamps import CLAMP_FIELDS, Clamp, emit_clamp
from compiler.kernels.scalar.core import Multiplier, ScalarCore
from compiler.kernels.winograd.kernel import WinogradKernel
from compiler.kernels.winograd.layout import PARAMETERS


@dataclass(frozen=True)
class ScalarRescale:
    """How accumulators with the factor 2^s become int8: (x * multiplier >> 32) + offset, less `tie` for a negative x,
    shifted right by `shift` (None: a field), and clamped."""

    shift: int | None
    tie: bool
    clamp: Clamp

    @property
    def fields(self) -> tuple[str, ...]:
        shift = () if self.shift is not None else ("shift",)
        return ("multiplier", "offset", *shift, *(("tie",) if self.tie else ()))

    @property
    def tag(self) -> str:
        return f"s{'n' if self.shift is None else self.shift}{'t' * self.tie}{self.clamp.value}"


@dataclass(frozen=True)
class WinogradScalar(WinogradKernel):
    """A channel's fields: the offset of its first inverse, then those of `rescale`. With the core's unsigned inputs
    both values of a word have their offset, since only unsigned halfwords load quickly."""

    core: ScalarCore
    rescale: ScalarRescale
    flags: tuple[str, ...]

    parameters: ClassVar[tuple[str, ...]] = (*PARAMETERS, *CLAMP_FIELDS)

    @property
    def name(self) -> str:
        return f"winograd_{self.core.tag}_{self.shape_name}_{self.rescale.tag}"

    @property
    def options(self) -> CompileOptions:  # type: ignore[override]
        return CompileOptions(flags=self.flags)

    @property
    def fields(self) -> tuple[str, ...]:
        return ("inverse", *self.rescale.fields)

    @property
    def channel_bytes(self) -> int:
        return 4 * len(self.fields)

    @property
    def lane_offset(self) -> int:
        return self.transform.offset * (0x10001 if self.core.unsigned_inputs else 1)

    @property
    def holds_rows(self) -> bool:
        return self.core.pinned

    @property
    def rolled(self) -> tuple[bool, bool]:
        # Without high products a core has no plain branch over more than 2 KB either. Where weights are transformed on
        # the fly, flash is short.
        short = bool(self.strip) or self.core.multiplier is not Multiplier.HIGH
        return short, short

    def lanes(self, f: KernelFunction, words: list[Value]) -> tuple[list[Value], list[Value]]:
        return [f.and_(word, 0x00FF00FF) for word in words], [f.and_(f.lshr(word, 8), 0x00FF00FF) for word in words]

    @property
    def channel_step(self) -> int:
        return 2

    def expand_quad(self, f: KernelFunction, words: list[Value], to: Value) -> None:
        def store(value: Value, to: Value, at: int) -> None:
            # The word is low + high * 2^16, and low fits int16.
            f.store_i16(value, to, at)
            f.store_i16(f.lshr(f.add(value, 0x8000), 16), to, at + 2 * self.channels)

        unsigned = [f.xor(word, -0x7F7F7F80) for word in words]

        def half(_: Value, carried: list[Value]) -> list[Value]:
            to, shift = carried
            taps = [f.sub(f.and_(f.lshr(word, shift), 0x00FF00FF), 0x00800080) for word in unsigned]
            self.expand_taps(f, taps, to, f.add, f.sub, store)
            return [f.offset(to, 4 * self.channels), f.const(8)]

        f.loop(2, half, [to, f.const(0)])

    def load_quad(self, f: KernelFunction, at: Value, offset: int) -> tuple[Value, Value]:
        return f.load_i32(at, offset, volatile=True), f.load_i32(at, offset + 4, volatile=True)

    def multiply(self, f: KernelFunction, weights: Value, values: Value) -> Value:
        def position(values: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            weights, products = carried
            totals = [f.load_i32(weights, 4 * c) for c in range(self.channels) for _ in range(self.tiles)]
            end = f.offset(values, self.position_bytes)
            start = f.offset(weights, 4 * self.channels)
            values, (weights, *totals) = f.loop_until(end, values, lambda at, c: self._quad(f, at, c), [start, *totals])
            for c in range(self.channels):
                for t in range(self.tiles):
                    f.store(totals[c * self.tiles + t], products, 4 * (t * self.channels + c))
            return values, [weights, f.offset(products, self.product_bytes)]

        end = f.offset(values, self.group_bytes)
        return f.loop_until(end, values, position, [weights, f.pointer("products")])[1][0]

    def _quad(self, f: KernelFunction, values: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
        weights, totals = carried[0], carried[1:]
        load = f.load_s16
        for i in range(4):
            f.split()
            factors = [
                load(weights, 2 * (i * self.channels + c), volatile=self.core.pinned) for c in range(self.channels)
            ]
            for t in range(self.tiles):
                x = self._value(f, values, 8 * t + 2 * i)
                for c, factor in enumerate(factors):
                    n = c * self.tiles + t
                    totals[n] = f.add(totals[n], f.mul(x, factor))
        return f.offset(values, 8 * self.tiles), [f.offset(weights, 8 * self.channels), *totals]

    def _value(self, f: KernelFunction, values: Value, offset: int) -> Value:
        value = f.load_s16(values, offset, volatile=self.core.pinned)
        return f.and_(value, 0xFFFF) if self.core.unsigned_inputs else value

    def store_row(self, f: KernelFunction, sums: list[Value], inverse: Operand, record: Value, output: Value) -> None:
        at = {field: f.load_i32(record, 4 * i, volatile=True) for i, field in enumerate(self.fields)}
        inverses, output_of = (
            self.load_inverses(f, at.pop("inverse"), inverse),
            emit_clamp(f, self.core, self.rescale.clamp),
        )
        for column, value in enumerate(sums):
            x = f.mul(value, inverses[column])
            y = f.add(self.core.multiply_high(f, x, at["multiplier"]), at["offset"])
            if self.rescale.tie:
                y = f.sub(y, f.and_(f.ashr(x, 31), at["tie"]))
            y = f.ashr(y, self.rescale.shift if self.rescale.shift is not None else at["shift"])
            f.store_i8(output_of(y), output, column * self.pixel_bytes)
