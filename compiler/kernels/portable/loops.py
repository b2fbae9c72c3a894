# SPDX-License-Identifier: Apache-2.0
"""The base of kernels that are the same for every instruction set, and the element types they work on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from compiler.codegen.builder import F32, I8, I16, I32, I64, Function, Operand, Value
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import CompileOptions, Kernel


@dataclass(frozen=True)
class PortableKernel(Kernel):
    """A kernel that uses nothing of the core but the primitives of `isa`, and is compiled with its options."""

    isa: Isa

    @property
    def options(self) -> CompileOptions:  # type: ignore[override]
        return self.isa.options


class Element(Enum):
    """An element type of activations; the value names it in kernels."""

    INT8 = "s8"
    UINT8 = "u8"
    INT16 = "s16"
    INT32 = "s32"
    INT64 = "s64"
    FLOAT32 = "f32"

    @property
    def bytes(self) -> int:
        return {"s8": 1, "u8": 1, "s16": 2, "s64": 8}.get(self.value, 4)

    def load(self, f: Function, pointer: Value, offset: Operand = 0) -> Value:
        """An element as i32 (extended by its sign), i64 or float."""
        if self in (Element.FLOAT32, Element.INT64):
            return f.load(F32 if self is Element.FLOAT32 else I64, pointer, offset)
        value = f.load({1: I8, 2: I16, 4: I32}[self.bytes], pointer, offset)
        if self is Element.INT32:
            return value
        return f.zext(value) if self is Element.UINT8 else f.sext(value)

    def store(self, f: Function, value: Value, pointer: Value, offset: Operand = 0) -> None:
        if self.bytes == 1:
            f.store_i8(value, pointer, offset)
        elif self is Element.INT16:
            f.store_i16(value, pointer, offset)
        else:
            f.store(value, pointer, offset)


ELEMENTS = {
    DType.INT8: Element.INT8,
    DType.UINT8: Element.UINT8,
    DType.INT16: Element.INT16,
    DType.INT32: Element.INT32,
    DType.INT64: Element.INT64,
    DType.BOOL: Element.UINT8,
    DType.FLOAT32: Element.FLOAT32,
}


def lanes_of(channels: int, most: int = 4) -> int:
    """The largest block of channels, up to `most`, that divides `channels`."""
    return next(n for n in range(min(most, channels), 0, -1) if channels % n == 0)
