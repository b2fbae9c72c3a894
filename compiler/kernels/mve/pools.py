# SPDX-License-Identifier: Apache-2.0
"""Helium pools of int8 images: 16 channels of a maximum, 8 of an average at a time.

Averages sum in 16 bits (windows of at most 255 cells) and divide by a 16-bit reciprocal that is exact for all sums.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from llvmlite import ir

from compiler.codegen.builder import I16, Value
from compiler.isa import Isa
from compiler.kernels.kernel import CompileOptions, Constant, KernelCall, KernelFunction, Lowered
from compiler.kernels.mve.vector import V8I1, V8I8, V8I16, V16I1, V16I8, shifted_halves, splat
from compiler.kernels.overlap import of_pixels
from compiler.kernels.portable.windows import Patch, WindowKernel, grid, window_arguments
from compiler.kernels.problems import Window

MOST_CELLS = 255
"""Cells of an average's window: 255 * 128 fits 16 bits."""


@dataclass(frozen=True)
class PoolMve(WindowKernel):
    """Blocks of `lanes` channels, `masked` where these do not divide the channels; `bounds` clamp the output."""

    masked: bool
    bounds: tuple[int, int] | None

    parameters: ClassVar[tuple[str, ...]] = (*WindowKernel.parameters, "blocks", "channels")
    lanes: ClassVar[int]
    bytes_kind: ClassVar[ir.VectorType]
    mask_kind: ClassVar[ir.VectorType]

    @property
    def options(self) -> CompileOptions:  # type: ignore[override]
        return CompileOptions(optimize=True)

    @property
    def _suffix(self) -> str:
        bounds = "" if self.bounds is None else f"_{self.bounds[0]}_{self.bounds[1]}"
        return f"{'_masked' * self.masked}{bounds}".replace("-", "m")

    def window(self, f: KernelFunction, patch: Patch, output: Value, cut: Value) -> None:
        def block(_: Value, carried: list[Value]) -> list[Value]:
            cell, output, left = carried
            mask = None
            if self.masked:
                mask = f.intrinsic(f"llvm.arm.mve.vctp{128 // self.lanes}", self.mask_kind, [left])

            def load(pointer: Value) -> Value:
                if mask is None:
                    return f.load(self.bytes_kind, pointer, align=1)
                undefined = ir.Constant(self.bytes_kind, ir.Undefined)
                name = f"llvm.masked.load.v{self.lanes}i8.p0"
                return f.intrinsic(name, self.bytes_kind, [pointer, mask, undefined])

            start = self.start(f)
            (values,) = self.taps(f, patch, cell, [start], lambda c, v: [self.fold(f, v[0], load(c))])
            values = self.finish(f, values, cut)
            if mask is None:
                f.store(values, output, align=1)
            else:
                f.intrinsic(f"llvm.masked.store.v{self.lanes}i8.p0", ir.VoidType(), [values, output, mask])
            return [f.offset(cell, self.lanes), f.offset(output, self.lanes), f.sub(left, self.lanes)]

        f.loop(f.integer("blocks"), block, [patch.cell, output, f.integer("channels")])

    @abstractmethod
    def start(self, f: KernelFunction) -> Value: ...

    @abstractmethod
    def fold(self, f: KernelFunction, value: Value, loaded: Value) -> Value: ...

    @abstractmethod
    def finish(self, f: KernelFunction, value: Value, cut: Value) -> Value:
        """The accumulated vector as bytes."""

    def clamped(self, f: KernelFunction, value: Value) -> Value:
        return value if self.bounds is None else f.minimum(f.maximum(value, self.bounds[0]), self.bounds[1])


class MaxPoolMve(PoolMve):
    lanes, bytes_kind, mask_kind = 16, V16I8, V16I1

    @property
    def name(self) -> str:
        return f"max_pool_mve{self._suffix}"

    def start(self, f: KernelFunction) -> Value:
        return f.splat(-128, V16I8)

    def fold(self, f: KernelFunction, value: Value, loaded: Value) -> Value:
        return f.maximum(value, loaded)

    def finish(self, f: KernelFunction, value: Value, cut: Value) -> Value:
        return self.clamped(f, value)


class AveragePoolMve(PoolMve):
    parameters: ClassVar[tuple[str, ...]] = (*PoolMve.parameters, "divisors")
    lanes, bytes_kind, mask_kind = 8, V8I8, V8I1

    @property
    def name(self) -> str:
        return f"average_pool_mve{self._suffix}"

    def start(self, f: KernelFunction) -> Value:
        return f.splat(0, V8I16)

    def fold(self, f: KernelFunction, value: Value, loaded: Value) -> Value:
        return f.add(value, f.sext(loaded, V8I16))

    def finish(self, f: KernelFunction, value: Value, cut: Value) -> Value:
        entry = f.offset(f.pointer("divisors"), f.mul(cut, _DIVISOR_BYTES))
        half, reciprocal, right = (f.load_i32(entry, 4 * i) for i in range(3))
        sign = f.ashr(value, 15)
        magnitude = f.add(f.sub(f.xor(value, sign), sign), splat(f, f.trunc(half, I16), V8I16))
        product = f.intrinsic(
            "llvm.arm.mve.vmulh.v8i16",
            V8I16,
            [f.shl(magnitude, 1), splat(f, f.trunc(reciprocal, I16), V8I16), f.const(1)],
        )
        quotient = shifted_halves(f, product, f.sub(0, right))
        return f.trunc(self.clamped(f, f.sub(f.xor(quotient, sign), sign)), V8I8)


_DIVISOR_BYTES = 12


def reciprocal(count: int) -> tuple[int, int]:
    """(multiplier, shift) with n // count == (2 * n * multiplier >> 16) >> shift for all 0 <= n < 2**15: the
    multiplier exceeds 2**(15 + shift) / count by less than one, which is less than 2**shift / count in all."""
    shift = (count - 1).bit_length()
    return -(-(1 << 15 + shift) // count), shift


def max_pool(isa: Isa, w: Window, bounds: tuple[int, int] | None) -> Lowered:
    """The maximum pool of one image; reads nothing outside the input."""
    kernel = MaxPoolMve(isa, w.input_channels % MaxPoolMve.lanes != 0, bounds)
    call = KernelCall(kernel, (*window_arguments(w, 1), *_blocks(w, kernel.lanes)))
    return Lowered((call,), overlaps=(of_pixels(w, 1),))


def average_pool(isa: Isa, w: Window, bounds: tuple[int, int] | None) -> Lowered:
    """The average pool of one image, windows of at most MOST_CELLS; reads nothing outside the input."""
    kernel = AveragePoolMve(isa, w.input_channels % AveragePoolMve.lanes != 0, bounds)
    cells = grid(w)
    counts = [row.taps * column.taps for row in cells.rows for column in cells.columns]
    divisors = b"".join(struct.pack("<3i", count // 2, *reciprocal(count)) for count in counts)
    arguments = (*window_arguments(w, 1), *_blocks(w, kernel.lanes), Constant(divisors))
    return Lowered((KernelCall(kernel, arguments),), overlaps=(of_pixels(w, 1),))


def _blocks(w: Window, lanes: int) -> tuple[int, int]:
    return -(-w.input_channels // lanes), w.input_channels
