# SPDX-License-Identifier: Apache-2.0
"""LOG_SOFTMAX over the last axis, float: (x - largest) - log(sum of exp(x - largest)).

Source: TensorFlow Lite, kernels/internal/reference/log_softmax.h.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler import float_numerics
from compiler.isa import Isa
from compiler.kernels import softmax
from compiler.kernels.kernel import Lowered
from compiler.ops.constraints import FLOAT, dtypes, inputs_between, output_dtype_as_input, same_shape
from compiler.ops.definition import Array, OperatorDefinition, OperatorView, no_options


def has_a_last_axis(view: OperatorView) -> str | None:
    """The input has at least one axis and one element."""
    shape = view.input().shape
    return None if shape and min(shape) > 0 else f"shape {list(shape)}"


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    (x,) = inputs
    assert x is not None
    return [float_numerics.log_softmax(x.reshape(-1, x.shape[-1])).reshape(x.shape)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    source = view.input()
    depth = source.shape[-1]
    return softmax.float_log_softmax(isa, source.elements // depth, depth)


DEFINITIONS = (
    OperatorDefinition(
        "LOG_SOFTMAX",
        no_options,
        (inputs_between(1, 1), dtypes(0, FLOAT), output_dtype_as_input(), same_shape, has_a_last_axis),
        reference,
        lower,
    ),
)
