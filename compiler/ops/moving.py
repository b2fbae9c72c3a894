# SPDX-License-Identifier: Apache-2.0
"""What operators that only move elements have in common."""

from __future__ import annotations

from math import prod

from compiler.graph import DType
from compiler.kernels.copies import Axis
from compiler.ops.definition import OperatorView

MOVABLE = (DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.BOOL)


def steps(shape: tuple[int, ...], element_bytes: int) -> list[int]:
    """The bytes from one cell to the next along each axis of a contiguous tensor."""
    return [prod(shape[axis + 1 :]) * element_bytes for axis in range(len(shape))]


def block_axes(counts: tuple[int, ...], source: tuple[int, ...], target: tuple[int, ...], size: int) -> list[Axis]:
    """The copy of a block of `counts` cells between contiguous tensors of shapes `source` and `target`."""
    return [Axis(*axis) for axis in zip(counts, steps(source, size), steps(target, size), strict=True)]


def movable(view: OperatorView) -> str | None:
    """Elements are FLOAT32, INT8, UINT8, INT16, INT32 or BOOL, or the result is known when the model is compiled."""
    kind = view.output().dtype
    known = all(tensor is None or tensor.is_constant for tensor in view.inputs)
    return None if kind in MOVABLE or (known and kind is DType.INT64) else kind.name


def inputs_as_output(view: OperatorView) -> str | None:
    """All inputs have the type, scale and zero point of the output."""
    output = view.output()
    for position, tensor in enumerate(view.inputs):
        if tensor is None:
            return f"input {position} is absent"
        if tensor.dtype is not output.dtype:
            return f"input {position} is {tensor.dtype.name}, the output {output.dtype.name}"
        if tensor.quantization != output.quantization and tensor.dtype.is_integer:
            return f"input {position} '{tensor.name}' is quantised differently"
    return None
