# SPDX-License-Identifier: Apache-2.0
"""RELU, RELU6, RELU_N1_TO_1, RELU_0_TO_1: clamps of real values, with a change of scale where the output has another.

Source: TensorFlow Lite Micro, kernels/activations_common.cc (RELU); of the others TensorFlow Lite,
kernels/activations.cc (ReluPrepare, QuantizedReluX), since TensorFlow Lite Micro clamps and does not rescale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from compiler import float_numerics
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.floats.functions import clamp as float_clamp
from compiler.kernels.kernel import INPUT, Lowered
from compiler.kernels.portable.formula import Formula, Operand, elementwise
from compiler.kernels.portable.loops import Element
from compiler.ops import bands
from compiler.ops.activation import INTEGER_RANGE, quantize_bound
from compiler.ops.constraints import (
    FLOAT,
    Q8,
    Q16,
    dtypes,
    inputs_between,
    int16_zero_points_are_zero,
    output_dtype_as_input,
    quantized_per_tensor,
    same_shape,
)
from compiler.ops.definition import Array, OperatorDefinition, OperatorView, no_options
from compiler.ops.rescaling import Rescaling


@dataclass(frozen=True)
class Clamp:
    """Real bounds."""

    minimum: float
    maximum: float

    def rescaling(self, view: OperatorView) -> Rescaling:
        source, output = view.input(), view.output()
        lowest, highest = INTEGER_RANGE[output.dtype]
        lowest = max(lowest, quantize_bound(self.minimum, output))
        if self.maximum != math.inf:
            highest = min(highest, quantize_bound(self.maximum, output))
        ratio = source.scale / output.scale
        if self.maximum != math.inf:
            # LiteRT rounds the ratio to float32. TFLite Micro does not, but it rescales for RELU alone.
            ratio = float(np.float32(ratio))
        return Rescaling(source, output, ratio, lowest, highest)


def _definition(name: str, minimum: float, maximum: float) -> OperatorDefinition:
    bounds = Clamp(minimum, maximum)
    formula = Formula(f"clamp_{name.lower()}", lambda f, isa, x, parameters: float_clamp(f, x[0], minimum, maximum))

    def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
        (x,) = inputs
        assert x is not None
        if x.dtype == np.float32:
            return [float_numerics.clamp(x, minimum, maximum)]
        return [bounds.rescaling(view).reference(x).astype(view.output().dtype.numpy)]

    def lower(view: OperatorView, isa: Isa) -> Lowered:
        output = view.output()
        if output.dtype is not DType.FLOAT32:
            return bounds.rescaling(view).lower(isa)
        inputs = [Operand(INPUT, Element.FLOAT32, output.shape)]
        return elementwise(isa, formula, inputs, Element.FLOAT32, output.shape)

    constraints = (
        inputs_between(1, 1),
        dtypes(0, Q8, DType.UINT8, Q16, FLOAT),
        output_dtype_as_input(),
        same_shape,
        quantized_per_tensor(0),
        int16_zero_points_are_zero,
        _moderate_ratio(bounds),
    )
    return OperatorDefinition(name, no_options, constraints, reference, lower, bands=bands.elementwise)


def _moderate_ratio(bounds: Clamp) -> Callable[[OperatorView], str | None]:
    def check(view: OperatorView) -> str | None:
        """Rescaled values stay below 2**30, and the scales' ratio is above 2**-32."""
        return bounds.rescaling(view).fault() if view.input().dtype.is_integer else None

    return check


DEFINITIONS = (
    _definition("RELU", 0.0, math.inf),
    _definition("RELU6", 0.0, 6.0),
    _definition("RELU_N1_TO_1", -1.0, 1.0),
    _definition("RELU_0_TO_1", 0.0, 1.0),
)
