# SPDX-License-Identifier: Apache-2.0
"""Requantisation from one tensor's scale to another's, elementwise: what QUANTIZE and the activations share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.graph import Tensor
from compiler.isa import Isa
from compiler.kernels.kernel import INPUT, Lowered
from compiler.kernels.portable import quantized
from compiler.kernels.portable.formula import Operand, elementwise
from compiler.kernels.portable.linear import Function, fit
from compiler.kernels.portable.loops import ELEMENTS
from compiler.numerics import multiply_by_quantized_multiplier, quantize_multiplier
from compiler.ops.activation import INTEGER_RANGE
from compiler.ops.definition import Array


@dataclass(frozen=True)
class Rescaling:
    """output = clamp(MultiplyByQuantizedMultiplier(input - zero point, ratio) + zero point, minimum, maximum)."""

    source: Tensor
    output: Tensor
    ratio: float
    minimum: int
    maximum: int

    @property
    def largest(self) -> float:
        """A bound of the rescaled values' magnitude."""
        lowest, highest = INTEGER_RANGE[self.source.dtype]
        return self.ratio * max(highest - self.source.zero_point, self.source.zero_point - lowest) + 1

    def fault(self) -> str | None:
        """What is wrong where the scales are too far apart."""
        return None if self.largest < 1 << 30 and self.ratio > 2.0**-32 else f"ratio {self.ratio:g}"

    def reference(self, x: Array) -> Array:
        """The exact result as int64."""
        scaled = multiply_by_quantized_multiplier(
            x.astype(np.int64) - self.source.zero_point, *quantize_multiplier(self.ratio)
        )
        return np.clip(scaled + self.output.zero_point, self.minimum, self.maximum)

    def lower(self, isa: Isa) -> Lowered:
        """A proven linear form of all inputs where there is one, else the reference's steps."""
        shape = self.output.shape
        inputs, target = [Operand(INPUT, ELEMENTS[self.source.dtype], shape)], ELEMENTS[self.output.dtype]
        whole = (self.minimum, self.maximum) == (-128, 127)
        lowest, highest = INTEGER_RANGE[self.source.dtype]
        domain = np.arange(lowest, highest + 1, dtype=np.int64)
        zero_points = (self.source.zero_point,), self.output.zero_point
        fitted = fit(
            Function((domain,), self.reference(domain), (self.ratio,), *zero_points, self.minimum, self.maximum)
        )
        if fitted is not None:
            formula = quantized.linear(1, fitted.nudge != 0, whole)
            numbers = (*fitted.factors, *fitted.constants)
        else:
            formula, (multiplier, shift) = quantized.rescale(whole), quantize_multiplier(self.ratio)
            numbers = (self.source.zero_point, multiplier, max(shift, 0), max(-shift, 0), self.output.zero_point)
        return elementwise(isa, formula, inputs, target, shape, (*numbers, self.minimum, self.maximum))
