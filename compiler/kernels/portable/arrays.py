# SPDX-License-Identifier: Apache-2.0
"""The operations of `codegen.builder.Function` on NumPy arrays: a formula that emits IR gives its own values here, so
that it is written once. Integers wrap and floats round as on the cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from compiler.codegen.builder import Function
from compiler.isa import Isa
from compiler.kernels.portable.formula import Emit

Array = NDArray[Any]
_KINDS: dict[str, Any] = {"i1": np.bool_, "i32": np.int32, "i64": np.int64, "float": np.float32, "double": np.float64}
_NAMES = {np.dtype(dtype).name: kind for kind, dtype in _KINDS.items()}
_COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "<": np.less, "<=": np.less_equal, "==": np.equal, "!=": np.not_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip


def evaluate(emit: Emit, operands: Sequence[Array], parameters: Sequence[int] = ()) -> Array:
    """The values of a formula for arrays of its operands, which broadcast; small integers are loaded as int32."""
    shape = np.broadcast_shapes(*(x.shape for x in operands))
    numbers = [np.full(1, p, np.int32) for p in parameters]
    with np.errstate(all="ignore"):
        values = [np.atleast_1d(x if x.dtype.itemsize >= 4 else x.astype(np.int32)) for x in operands]
        result = emit(cast(Function, ArrayFunction()), cast(Isa, ArrayIsa()), cast(Any, values), cast(Any, numbers))
    return np.broadcast_to(cast(Array, result), shape or (1,)).reshape(shape)


class ArrayIsa:
    """The primitives that formulas take from an instruction set."""

    has_float_unit = False
    has_multiplier = True

    def multiply_high(self, f: object, a: Array, b: Array) -> Array:
        return ((a.astype(np.int64) * b) >> 32).astype(np.int32)


class ArrayFunction:
    """Values are arrays of bool, int32, int64, float32 or float64; Python integers take the type of their partner."""

    def const(self, value: int, kind: Any = "i32") -> Array:
        dtype = _KINDS[str(kind)]
        wrapped = np.array([value & 0xFFFFFFFFFFFFFFFF], np.uint64)
        return wrapped.view(np.int64).astype(dtype)

    def double(self, value: float) -> Array:
        return np.array([value], np.float64)

    def float(self, value: float) -> Array:
        return np.array([value], np.float32)

    def value(self, operand: Array | int) -> Array:
        return self.const(operand) if isinstance(operand, int) else operand

    def _pair(self, a: Array | int, b: Array | int) -> tuple[Array, Array]:
        kind = next((_NAMES[str(x.dtype)] for x in (a, b) if not isinstance(x, int)), "i32")
        left, right = (self.const(x, kind) if isinstance(x, int) else x for x in (a, b))
        return left, right

    def add(self, a: Array | int, b: Array | int) -> Array:
        return np.add(*self._pair(a, b))

    def sub(self, a: Array | int, b: Array | int) -> Array:
        return np.subtract(*self._pair(a, b))

    def mul(self, a: Array | int, b: Array | int) -> Array:
        return np.multiply(*self._pair(a, b))

    def and_(self, a: Array | int, b: Array | int) -> Array:
        return np.bitwise_and(*self._pair(a, b))

    def or_(self, a: Array | int, b: Array | int) -> Array:
        return np.bitwise_or(*self._pair(a, b))

    def xor(self, a: Array | int, b: Array | int) -> Array:
        return np.bitwise_xor(*self._pair(a, b))

    def shl(self, a: Array | int, b: Array | int) -> Array:
        return np.left_shift(*self._pair(a, b))

    def ashr(self, a: Array | int, b: Array | int) -> Array:
        return np.right_shift(*self._pair(a, b))

    def lshr(self, a: Array | int, b: Array | int) -> Array:
        left, right = self._pair(a, b)
        unsigned = np.dtype(f"u{left.dtype}")
        return np.asarray(np.right_shift(left.view(unsigned), right.view(unsigned)).view(left.dtype))

    def compare(self, relation: str, a: Array | int, b: Array | int) -> Array:
        return _COMPARISONS[relation](*self._pair(a, b))

    def compare_unsigned(self, relation: str, a: Array | int, b: Array | int) -> Array:
        left, right = self._pair(a, b)
        unsigned = np.dtype(f"u{left.dtype}")
        return _COMPARISONS[relation](left.view(unsigned), right.view(unsigned))

    def fcompare(self, relation: str, a: Array, b: Array) -> Array:
        return np.asarray(_COMPARISONS[relation](a, b))

    def select(self, condition: Array, yes: Array | int, no: Array | int) -> Array:
        return np.where(condition, *self._pair(yes, no))

    def minimum(self, a: Array | int, b: Array | int) -> Array:
        return np.minimum(*self._pair(a, b))

    def maximum(self, a: Array | int, b: Array | int) -> Array:
        return np.maximum(*self._pair(a, b))

    def sext(self, a: Array, kind: Any = "i32") -> Array:
        return -a.astype(_KINDS[str(kind)]) if a.dtype == np.bool_ else a.astype(_KINDS[str(kind)])

    def zext(self, a: Array, kind: Any = "i32") -> Array:
        return (a if a.dtype == np.bool_ else a.view(np.uint32)).astype(_KINDS[str(kind)])

    def trunc(self, a: Array, kind: Any) -> Array:
        return a.astype(_KINDS[str(kind)])

    def intrinsic(self, name: str, result: Any, arguments: Sequence[Array]) -> Array:
        """llvm.ctlz.i32 alone."""
        if name != "llvm.ctlz.i32":
            raise ValueError(f"{name} has no form for arrays")
        return (32 - np.frexp(arguments[0].view(np.uint32).astype(np.float64))[1]).astype(np.int32)

    def to_double(self, a: Array) -> Array:
        return a.astype(np.float64)

    def to_single(self, a: Array) -> Array:
        return a.astype(np.float32)

    def fadd(self, a: Array, b: Array) -> Array:
        return a + b

    def fsub(self, a: Array, b: Array) -> Array:
        return a - b

    def fmul(self, a: Array, b: Array) -> Array:
        return a * b

    def fdiv(self, a: Array, b: Array) -> Array:
        return a / b

    def bits(self, a: Array) -> Array:
        return np.ascontiguousarray(a).view(np.int32 if a.dtype == np.float32 else np.int64)

    def from_bits(self, a: Array) -> Array:
        return np.ascontiguousarray(a).view(np.float32 if a.dtype == np.int32 else np.float64)

    def to_float(self, a: Array) -> Array:
        return a.astype(np.float32)

    def to_int(self, a: Array) -> Array:
        return np.where(np.isfinite(a), a, 0).astype(np.int32)

    def loop(self, count: int, body: Any, carried: Sequence[Array] = ()) -> list[Array]:
        values = list(carried)
        for i in range(count):
            values = list(body(self.const(i), values))
        return values
