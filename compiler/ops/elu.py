# SPDX-License-Identifier: Apache-2.0
"""ELU: x, or exp(x) - 1 below 0. int8 by a table of 256.

Source: LiteRT, kernels/activations.cc (EluPrepare, EluEval).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler import float_numerics
from compiler.isa import Isa
from compiler.kernels.floats.functions import FloatFunction
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable import maps
from compiler.ops import bands, byte_tables
from compiler.ops.constraints import (
    FLOAT,
    Q8,
    dtypes,
    inputs_between,
    output_dtype_as_input,
    quantized_per_tensor,
    same_shape,
)
from compiler.ops.definition import Array, OperatorDefinition, OperatorView, no_options


def byte_table(view: OperatorView) -> Array:
    """The outputs for all 256 inputs, in ascending order of the input."""
    return byte_tables.through_floats(view.input(), view.output(), lambda x: np.exp(x) - np.float32(1) if x < 0 else x)


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    (x,) = inputs
    assert x is not None
    return [float_numerics.elu(x) if x.dtype == np.float32 else byte_tables.apply(byte_table(view), x)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    source = view.input()
    if source.dtype is FLOAT:
        return maps.float_map(isa, source.elements, FloatFunction.ELU)
    return byte_tables.lower(isa, source, byte_table(view))


DEFINITIONS = (
    OperatorDefinition(
        "ELU",
        no_options,
        (inputs_between(1, 1), dtypes(0, Q8, FLOAT), output_dtype_as_input(), same_shape, quantized_per_tensor(0)),
        reference,
        lower,
        bands=bands.elementwise,
    ),
)
