# SPDX-License-Identifier: Apache-2.0
"""CONCATENATION: tensors joined along an axis. UINT8 inputs are requantised where scale or zero point differ from the
output's, in float32.

Source: TensorFlow Lite Micro, kernels/concatenation.cc; for UINT8 TensorFlow Lite,
kernels/internal/reference/concatenation.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.graph import DType, Tensor
from compiler.isa import Isa
from compiler.kernels.kernel import SCRATCH, Constant, KernelCall, Lowered, Place, Role
from compiler.kernels.portable.copies import copy
from compiler.kernels.portable.maps import byte_map
from compiler.ops.activation import Activation
from compiler.ops.bands import same_rows
from compiler.ops.broadcast import operand
from compiler.ops.definition import Array, Band, OperatorDefinition, OperatorView
from compiler.ops.moving import block_axes, inputs_as_output, movable, steps


@dataclass(frozen=True)
class ConcatenationAttributes:
    """Options of CONCATENATION."""

    axis: int = 0
    activation: Activation = Activation.NONE


def parse(options: Any) -> ConcatenationAttributes:
    if options is None:
        return ConcatenationAttributes()
    return ConcatenationAttributes(options.Axis(), Activation(options.FusedActivationFunction()))


def no_activation(view: OperatorView) -> str | None:
    """There is no fused activation."""
    activation = view.attributes.activation
    return None if activation is Activation.NONE else str(activation.name)


def joined_shape(view: OperatorView) -> str | None:
    """The inputs differ in the joined axis alone, and the output's is their sum."""
    shapes = [t.shape for t in view.inputs if t is not None]
    if not shapes:
        return "no inputs"
    rank, axis = len(shapes[0]), view.attributes.axis
    if not rank or not -rank <= axis < rank or any(len(s) != rank or 0 in s for s in shapes):
        return f"{shapes} along axis {axis}"
    at = axis % rank
    if len({(*s[:at], *s[at + 1 :]) for s in shapes}) != 1:
        return f"{shapes} along axis {axis}"
    expected = (*shapes[0][:at], sum(s[at] for s in shapes), *shapes[0][at + 1 :])
    return None if view.output().shape == expected else f"output {list(view.output().shape)}, not {list(expected)}"


def inputs_suit_output(view: OperatorView) -> str | None:
    """All inputs have the type, scale and zero point of the output; the latter two may differ for UINT8."""
    output = view.output()
    if output.dtype is not DType.UINT8:
        return inputs_as_output(view)
    tensors = [*view.inputs, output]
    faults = (t for t in tensors if t is None or t.dtype is not DType.UINT8 or not t.quantization)
    return next((f"{tensor}" for tensor in faults), None)


def requantized(source: Tensor, output: Tensor) -> NDArray[np.uint8] | None:
    """The table [256] from an input's bytes to the output's, or None where they are the same."""
    if source.dtype is not DType.UINT8 or source.quantization == output.quantization:
        return None
    scale = np.float32(source.scale) * (np.float32(1) / np.float32(output.scale))
    steps = np.arange(256).astype(np.float32) * scale + np.float32(-source.zero_point) * scale
    rounded = np.copysign(np.floor(np.abs(steps.astype(np.float64)) + 0.5), steps)
    return np.asarray(np.clip(rounded + output.zero_point, 0, 255), np.uint8)


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    parts = []
    for x, tensor in zip(inputs, view.inputs, strict=True):
        assert x is not None and tensor is not None
        table = requantized(tensor, view.output())
        parts.append(x if table is None else table[x])
    return [np.concatenate(parts, axis=view.attributes.axis)]


def lower(view: OperatorView, isa: Isa) -> Lowered:
    output, size = view.output(), view.output().dtype.bytes
    at = view.attributes.axis % len(output.shape)
    offset, scratch = 0, 0
    calls: list[KernelCall] = []
    for position, tensor in enumerate(view.inputs):
        assert tensor is not None
        source, table = operand(view, position), requantized(tensor, output)
        if table is not None and tensor.data is not None:
            source = Constant(table[tensor.data].tobytes())
        elif table is not None:
            calls += byte_map(isa, tensor.elements, table, Place(Role.INPUT, position), SCRATCH).calls
            source, scratch = SCRATCH, max(scratch, tensor.bytes)
        axes = block_axes(tensor.shape, tensor.shape, output.shape, size)
        calls.append(copy(isa, source, Place(Role.OUTPUT, 0, offset), axes, size))
        offset += tensor.shape[at] * steps(output.shape, size)[at]
    return Lowered(tuple(calls), scratch)


def _within_rows(view: OperatorView, rows: range) -> Band | None:
    return same_rows(view, rows) if view.attributes.axis in (2, 3, -2, -1) else None


DEFINITIONS = (
    OperatorDefinition(
        "CONCATENATION",
        parse,
        (movable, inputs_suit_output, no_activation, joined_shape),
        reference,
        lower,
        bands=_within_rows,
    ),
)
