# SPDX-License-Identifier: Apache-2.0
"""PAD and PADV2: cells of one value around a tensor; PAD's is the zero point, or 0.

Source: TensorFlow Lite Micro, kernels/pad_common.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.copies import Axis, copy, fill
from compiler.kernels.kernel import INPUT, OUTPUT, Lowered, Place
from compiler.ops.constraints import (
    FLOAT,
    Q8,
    Q16,
    constant,
    dtypes,
    inputs_between,
    output_dtype_as_input,
    same_quantization,
)
from compiler.ops.definition import Array, OperatorDefinition, OperatorView, no_options

VALUE_POSITION = 2


def paddings(view: OperatorView) -> list[tuple[int, int]]:
    """(before, after) of each axis."""
    return [(int(a), int(b)) for a, b in view.input(1).constant.reshape(-1, 2)]


def padded_shape(view: OperatorView) -> str | None:
    """There is a pair of paddings, not negative, for each axis, and the output has the padded shape."""
    shape, table = view.input().shape, view.input(1).constant
    if table.shape != (len(shape), 2) or table.min(initial=0) < 0 or 0 in shape:
        return f"input {list(shape)}, paddings {table.tolist()}"
    expected = tuple(size + a + b for size, (a, b) in zip(shape, paddings(view), strict=True))
    return None if view.output().shape == expected else f"output {list(view.output().shape)}, not {list(expected)}"


def value_as_input(view: OperatorView) -> str | None:
    """The value has the type, scale and zero point of the input."""
    value = view.optional(VALUE_POSITION)
    source = view.input()
    if value is None or (value.dtype is source.dtype and value.quantization == source.quantization):
        return None
    return f"{value.dtype.name} {value.quantization}"


def fill_value(view: OperatorView) -> Array:
    """The value of the padding, as a scalar of the output's type."""
    value = view.optional(VALUE_POSITION)
    if value is not None:
        return value.constant.reshape(())
    quantization = view.output().quantization
    return np.asarray(quantization.zero_point if quantization else 0, view.output().dtype.numpy)


def _axes(view: OperatorView) -> list[Axis]:
    source, output, size = view.input().shape, view.output().shape, view.input().dtype.bytes
    return [Axis(count, prod(source[i + 1 :]) * size, prod(output[i + 1 :]) * size) for i, count in enumerate(source)]


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    x = inputs[0]
    assert x is not None
    return [np.pad(x, paddings(view), constant_values=fill_value(view))]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    output, size = view.output(), view.output().dtype.bytes
    axes = _axes(view)
    offset = sum(before * axis.target for (before, _), axis in zip(paddings(view), axes, strict=True))
    value = int(fill_value(view).view({1: np.uint8, 2: np.uint16, 4: np.uint32}[size]))
    target = Place(OUTPUT.role, 0, offset)
    return Lowered((fill(isa, OUTPUT, output.elements, value, size), copy(isa, INPUT, target, axes, size)))


def _definition(name: str, inputs: int) -> OperatorDefinition:
    constraints = (
        inputs_between(inputs, inputs),
        dtypes(0, Q8, DType.UINT8, Q16, DType.INT32, FLOAT),
        dtypes(1, DType.INT32, DType.INT64),
        output_dtype_as_input(),
        same_quantization,
        constant(1, "The paddings"),
        constant(2, "The value"),
        padded_shape,
        value_as_input,
    )
    return OperatorDefinition(name, no_options, constraints, reference, lower)


DEFINITIONS = (_definition("PAD", 2), _definition("PADV2", 3))
