# SPDX-License-Identifier: Apache-2.0
"""What ADD_N and CUMSUM do with int8 values: sums of input steps, rescaled to the output's.

The reference shifts each value left by 20 and halves it, adds these in 32 bits and rescales the sum. It begins with
what a raw 0 is worth, minus the zero point, and not with 0. Here the steps are added first and shifted once, which is
the same as long as the reference's sum does not overflow; larger sums are saturated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from compiler.graph import Tensor
from compiler.kernels.portable.raw_sums import LIMIT, SHIFT
from compiler.numerics import multiply_by_quantized_multiplier, quantize_multiplier
from compiler.ops.constraints import Q8, quantized_per_tensor, stated
from compiler.ops.definition import Array, Constraint, OperatorView, rule

FAR = 1 << 16
WIDE = 16
"""An output that covers fewer than so many input scales a step is saturated by sums of LIMIT."""


@dataclass(frozen=True)
class RawSums:
    """Sums of steps of `source` as values of `output`."""

    source: Tensor
    output: Tensor

    @property
    def multiplier(self) -> tuple[int, int]:
        """(multiplier, shift)."""
        return quantize_multiplier(2.0 * self.source.scale / ((1 << SHIFT + 1) * self.output.scale))

    @property
    def numbers(self) -> tuple[int, int, int]:
        """The multiplier, how far to shift right, and the zero point: the kernels' parameters."""
        multiplier, shift = self.multiplier
        return multiplier, -shift, self.output.zero_point

    def largest(self, terms: int) -> int:
        """A bound of sums of so many values; from LIMIT on the reference's may overflow."""
        return (terms + 1) * max(127 - self.source.zero_point, self.source.zero_point + 128)

    def fault(self, terms: int) -> str | None:
        """What keeps sums of so many values from being exact."""
        ratio, largest = self.output.scale / self.source.scale, self.largest(terms)
        if ratio >= 1 / FAR and (ratio <= WIDE or largest < LIMIT):
            return None
        return f"output scale {self.output.scale:g} for sums up to {largest} times {self.source.scale:g}"

    def rescaled(self, totals: Array) -> Array:
        """The outputs of sums, as int64."""
        shifted = np.clip(totals, -LIMIT, LIMIT - 1) << SHIFT
        values = multiply_by_quantized_multiplier(shifted, *self.multiplier) + self.output.zero_point
        return np.asarray(np.clip(values, -128, 127))


def raw_sum_constraints(terms: Callable[[OperatorView], int]) -> tuple[Constraint, ...]:
    """What INT8 operators that add so many values have to keep."""

    def exact(view: OperatorView) -> str | None:
        """INT8 sums stay below 2**12 input steps, or the output scale is at most 16 times the input scale; it is at
        least 2**-16 times the input scale."""
        return RawSums(view.input(), view.output()).fault(terms(view))

    return _of_int8(quantized_per_tensor(0)), _of_int8(exact)


def _of_int8(check: Constraint) -> Constraint:
    return stated(rule(check), lambda view: check(view) if view.input().dtype is Q8 else None)
