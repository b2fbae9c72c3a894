# SPDX-License-Identifier: Apache-2.0
"""Helium sums and differences of two int8 tensors of one shape: four elements at a time, in a tail-predicated loop.

Either a linear form that is proven for all inputs, or the reference's steps (see compiler/ops/add.py). The output may
be one of the inputs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from compiler.codegen.builder import Value
from compiler.kernels.kernel import OUTPUT, CompileOptions, Kernel, KernelCall, KernelFunction, Lowered
from compiler.kernels.mve.vector import (
    V4I1,
    V4I8,
    V4I32,
    RequantizeMode,
    Rounding,
    Scale,
    scaled,
    shifted,
    splat,
)
from compiler.kernels.problems import IntegerSum

LANES = 4
LEFT_SHIFT = 20
"""By how much the reference shifts int8 inputs left."""
_WALK = ("first", "second", "output", "quads", "count", "minimum", "maximum")
Combine = Callable[[Value, Value], Value]


@dataclass(frozen=True)
class SumMve(Kernel):
    options = CompileOptions(optimize=True)

    @abstractmethod
    def combine(self, f: KernelFunction) -> Combine:
        """Loads the parameters; returns what turns two <4 x i32> inputs into outputs before the clamp."""

    def build(self, f: KernelFunction) -> None:
        combine = self.combine(f)
        minimum, maximum = (splat(f, f.integer(name), V4I32) for name in ("minimum", "maximum"))
        undefined = ir.Constant(V4I8, ir.Undefined)

        def quad(_: Value, carried: list[Value]) -> list[Value]:
            first, second, output, left = carried
            mask = f.intrinsic("llvm.arm.mve.vctp32", V4I1, [left])
            a, b = (
                f.sext(f.intrinsic("llvm.masked.load.v4i8.p0", V4I8, [pointer, mask, undefined]), V4I32)
                for pointer in (first, second)
            )
            values = f.minimum(f.maximum(combine(a, b), minimum), maximum)
            f.intrinsic("llvm.masked.store.v4i8.p0", ir.VoidType(), [f.trunc(values, V4I8), output, mask])
            return [*(f.offset(p, LANES) for p in (first, second, output)), f.sub(left, LANES)]

        start = [f.pointer("first"), f.pointer("second"), f.pointer("output"), f.integer("count")]
        f.loop(f.integer("quads"), quad, start)


@dataclass(frozen=True)
class LinearSumMve(SumMve):
    """(start + factors * inputs + rounding, less the nudge if `nudged` and negative) >> shift."""

    nudged: bool

    parameters = (*_WALK, "first_factor", "second_factor", "start", "rounding", "shift", "nudge")

    @property
    def name(self) -> str:
        return "linear_sum_mve" + "_nudged" * self.nudged

    def combine(self, f: KernelFunction) -> Combine:
        first, second, start, rounding = (
            splat(f, f.integer(name), V4I32) for name in ("first_factor", "second_factor", "start", "rounding")
        )
        right = f.sub(0, f.integer("shift"))
        nudge = splat(f, f.integer("nudge"), V4I32) if self.nudged else None

        def linear(a: Value, b: Value) -> Value:
            total = f.add(f.add(f.mul(a, first), f.mul(b, second)), start)
            if nudge is not None:
                total = f.sub(total, f.and_(f.ashr(total, 31), nudge))
            return shifted(f, f.add(total, rounding), right, rounding=False)

        return linear


@dataclass(frozen=True)
class ExactSumMve(SumMve):
    """The reference's steps; the modes are those of the first, the second input and the sum."""

    subtract: bool
    modes: tuple[RequantizeMode, RequantizeMode, RequantizeMode]

    parameters = (
        *_WALK,
        *(f"{name}_{what}" for name in ("first", "second", "sum") for what in ("zero", "multiplier", "right")),
    )

    @property
    def name(self) -> str:
        return f"{'difference' if self.subtract else 'sum'}_mve_{'_'.join(mode.name for mode in self.modes)}"

    def combine(self, f: KernelFunction) -> Combine:
        zeros = [splat(f, f.integer(f"{name}_zero"), V4I32) for name in ("first", "second", "sum")]
        scales = [
            Scale(f.integer(f"{name}_multiplier"), f.integer(f"{name}_right"), None, None)
            for name in ("first", "second", "sum")
        ]

        def exact(a: Value, b: Value) -> Value:
            a, b = (
                scaled(f, self.modes[i], f.shl(f.sub(x, zeros[i]), LEFT_SHIFT), scales[i]) for i, x in enumerate((a, b))
            )
            total = f.sub(a, b) if self.subtract else f.add(a, b)
            return f.add(scaled(f, self.modes[2], total, scales[2]), zeros[2])

        return exact


def lower(layer: IntegerSum) -> Lowered:
    """Any int8 sum; reads and writes nothing outside the tensors."""
    walk = (
        layer.first,
        layer.second,
        OUTPUT,
        -(-layer.count // LANES),
        layer.count,
        layer.minimum,
        layer.maximum,
    )
    if layer.linear is not None:
        form = layer.linear
        tail = (*form.factors, form.start, form.rounding, form.shift, form.nudge)
        return Lowered((KernelCall(LinearSumMve(form.nudge != 0), (*walk, *tail)),))
    modes = [_mode(shift) for _, shift in layer.multipliers]
    if layer.minimum >= layer.zero_points[2]:
        modes[2] = _mode(0)
    kernel = ExactSumMve(layer.subtract, (modes[0], modes[1], modes[2]))
    scales = zip(layer.zero_points, layer.multipliers, strict=True)
    return Lowered(
        (KernelCall(kernel, (*walk, *(v for zero, (multiplier, shift) in scales for v in (zero, multiplier, shift)))),)
    )


def _mode(shift: int) -> RequantizeMode:
    return RequantizeMode(Rounding.SHIFTED if shift < 0 else Rounding.CLAMPED, False, False)
