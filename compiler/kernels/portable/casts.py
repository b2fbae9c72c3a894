# SPDX-License-Identifier: Apache-2.0
"""Conversion of each element to another type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from compiler.codegen.builder import F32, I8, I16, I32, I64, Value
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import ALIAS, INPUT, OUTPUT, KernelCall, KernelFunction, Lowered
from compiler.kernels.portable.maps import MapKernel

STORAGE = {1: I8, 2: I16, 4: I32, 8: I64}
NAN_IS_LARGEST = (DType.UINT8, DType.UINT16, DType.INT64)
"""Types for which NaN becomes the largest number; elsewhere it becomes 0."""


def cast(isa: Isa, count: int, source: DType, target: DType) -> Lowered:
    """`count` elements of input 0 as another type; nothing where the bytes stay."""
    same_bytes = DType.FLOAT32 not in (source, target) and target is not DType.BOOL and source.bytes == target.bytes
    if same_bytes or source is target:
        return ALIAS
    return Lowered((KernelCall(CastKernel(isa, source, target), (INPUT, OUTPUT, count)),))


@dataclass(frozen=True)
class CastKernel(MapKernel):
    """Floats are cut towards zero and saturated, integers are cut to their low bits."""

    source: DType
    target: DType

    parameters: ClassVar[tuple[str, ...]] = ("input", "output", "count")

    @property
    def name(self) -> str:
        return f"cast_{self.source.value}_{self.target.value}"

    @property
    def sizes(self) -> tuple[int, int]:
        return self.source.bytes, self.target.bytes

    def element(self, f: KernelFunction, source: Value, target: Value, lane: int) -> None:
        value = f.load(F32 if self.source is DType.FLOAT32 else STORAGE[self.source.bytes], source)
        f.store(self._from_float(f, value) if self.source is DType.FLOAT32 else self._from_integer(f, value), target)

    def _from_float(self, f: KernelFunction, value: Value) -> Value:
        if self.target is DType.BOOL:
            return f.zext(f.fcompare("!=", value, f.float(0.0)), I8)
        storage = STORAGE[self.target.bytes]
        signed = "si" if np.issubdtype(self.target.numpy, np.signedinteger) else "ui"
        whole = f.intrinsic(f"llvm.fpto{signed}.sat", storage, [value], overload=[storage, F32])
        if self.target not in NAN_IS_LARGEST:
            return whole
        return f.select(f.fcompare("!=", value, value), int(np.iinfo(self.target.numpy).max), whole)

    def _from_integer(self, f: KernelFunction, value: Value) -> Value:
        if self.target is DType.BOOL:
            return f.zext(f.compare("!=", value, 0), I8)
        signed = np.issubdtype(self.source.numpy, np.signedinteger)
        if self.target is DType.FLOAT32:
            return f.builder.sitofp(value, F32) if signed else f.builder.uitofp(value, F32)
        wanted = STORAGE[self.target.bytes]
        if wanted.width <= value.type.width:
            return f.trunc(value, wanted)
        return f.sext(value, wanted) if signed else f.zext(value, wanted)
