# SPDX-License-Identifier: Apache-2.0
"""COPY: the compiler's own operator for an output whose value is in memory of another kind: an input, a variable or a
constant."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.isa import Isa
from compiler.kernels.kernel import INPUT, OUTPUT, Constant, Lowered
from compiler.kernels.portable.copies import copy_bytes
from compiler.ops.constraints import inputs_between, output_dtype_as_input, same_shape
from compiler.ops.definition import Array, OperatorDefinition, OperatorView, no_options


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    (x,) = inputs
    assert x is not None
    return [x.copy()]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    source = view.input()
    held = Constant(source.constant.tobytes()) if source.is_constant else INPUT
    return Lowered((copy_bytes(isa, held, OUTPUT, source.bytes),))


DEFINITIONS = (
    OperatorDefinition(
        "COPY", no_options, (inputs_between(1, 1), output_dtype_as_input(), same_shape), reference, lower
    ),
)
