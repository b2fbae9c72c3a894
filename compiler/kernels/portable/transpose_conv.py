# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions as ordinary ones: the outputs that lie `stride` apart see the same taps, so that each of the
stride x stride phases is a convolution with stride 1 over a part of the kernel, turned around. A phase is computed into
scratch memory by the core's own kernels and copied to its places in the output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.isa import Isa
from compiler.kernels.kernel import Constant, KernelCall, Lowered, Place, Role
from compiler.kernels.portable.copies import Axis, copy
from compiler.kernels.problems import Window


@dataclass(frozen=True)
class Scatter:
    """Geometry of one image: input cell (y, x) adds to the outputs from (y, x) * stride - pad on, a kernel far."""

    input_height: int
    input_width: int
    input_channels: int
    output_height: int
    output_width: int
    output_channels: int
    kernel_height: int
    kernel_width: int
    stride_height: int
    stride_width: int
    pad_top: int
    pad_left: int


@dataclass(frozen=True)
class _Axis:
    """One phase of one axis: `outputs` outputs from `first` on; tap t of the window is kernel tap `last` - t * stride
    (beyond the kernel: zero), after `pad` cells of padding."""

    first: int
    outputs: int
    taps: int
    last: int
    pad: int


@dataclass(frozen=True)
class Phase:
    """A phase: the convolution's geometry, and the place of its first output."""

    window: Window
    rows: _Axis
    columns: _Axis


def _axes(inputs: int, outputs: int, kernel: int, stride: int, pad: int) -> Iterator[_Axis]:
    for first in range(min(stride, outputs)):
        ahead, tap = divmod(first + pad, stride)
        # A window reaches from the tap's oldest cell to `ahead` cells before the first; without taps it sees zeros.
        taps = max(-(-(kernel - tap) // stride), ahead + 1)
        # Outputs behind the last input cell's kernel see nothing.
        reached = min(-(-(outputs - first) // stride), inputs + taps - 1 - ahead)
        if reached > 0:
            yield _Axis(first, reached, taps, tap + (taps - 1) * stride, taps - 1 - ahead)


def phases(s: Scatter) -> tuple[Phase, ...]:
    """The phases of an image, by rows. Every window covers a cell of the input; outputs without one are left out."""
    found = []
    for rows in _axes(s.input_height, s.output_height, s.kernel_height, s.stride_height, s.pad_top):
        for columns in _axes(s.input_width, s.output_width, s.kernel_width, s.stride_width, s.pad_left):
            window = Window(
                s.input_height, s.input_width, s.input_channels, rows.outputs, columns.outputs, s.output_channels,
                rows.taps, columns.taps, 1, 1, rows.pad, columns.pad,
            )  # fmt: skip
            found.append(Phase(window, rows, columns))
    return tuple(found)


def phase_weights(s: Scatter, phase: Phase, weights: NDArray[Any]) -> NDArray[Any]:
    """The phase's part of weights [outputs, kernel_height, kernel_width, inputs], in the window's order."""
    taken = weights
    for axis, part, stride in ((1, phase.rows, s.stride_height), (2, phase.columns, s.stride_width)):
        missing = max(0, part.last + 1 - taken.shape[axis])
        widened = np.pad(taken, [(0, missing if a == axis else 0) for a in range(4)])
        taken = np.take(widened, part.last - stride * np.arange(part.taps), axis=axis)
    return np.ascontiguousarray(taken)


def transpose_conv(
    isa: Isa, s: Scatter, weights: NDArray[Any], idle: NDArray[Any], convolution: Callable[[Window, Any], Lowered]
) -> Lowered:
    """One image. `convolution(window, weights)` lowers a phase, input and output at position 0. `idle`
    [output_channels], of the output's dtype, is a pixel that no input reaches."""
    parts = [(phase, convolution(phase.window, phase_weights(s, phase, weights))) for phase in phases(s)]
    macs = s.input_height * s.input_width * int(np.prod(weights.shape))
    pixels = s.output_height * s.output_width
    everywhere = sum(phase.rows.outputs * phase.columns.outputs for phase, _ in parts) == pixels
    if len(parts) == 1 and everywhere:
        ((_, whole),) = parts
        others = tuple(replace(other, macs=macs) for other in whole.alternatives)
        return replace(whole, macs=macs, alternatives=others)
    calls: list[KernelCall] = []
    scratch, element_bytes = 0, idle.itemsize
    pixel = s.output_channels * element_bytes
    if not everywhere:
        everything = (Axis(pixels, 0, pixel), Axis(s.output_channels, element_bytes, element_bytes))
        calls.append(copy(isa, Constant(idle.tobytes()), Place(Role.OUTPUT), everything, element_bytes))
    for phase, lowered in parts:
        rows, columns = phase.rows, phase.columns
        own = -(-rows.outputs * columns.outputs * pixel // 16) * 16
        scratch = max(scratch, own + lowered.scratch_bytes)
        calls += [_moved(call, own) for call in lowered.calls]
        axes = (
            Axis(rows.outputs, columns.outputs * pixel, s.stride_height * s.output_width * pixel),
            Axis(columns.outputs, pixel, s.stride_width * pixel),
            Axis(s.output_channels, element_bytes, element_bytes),
        )
        first = (rows.first * s.output_width + columns.first) * pixel
        calls.append(copy(isa, Place(Role.SCRATCH), Place(Role.OUTPUT, 0, first), axes, element_bytes))
    return Lowered(tuple(calls), scratch, macs)


def _moved(call: KernelCall, offset: int) -> KernelCall:
    """The call with its output at the start of the scratch memory, and its scratch memory behind that."""

    def place(argument: Any) -> Any:
        if isinstance(argument, Place) and argument.role is Role.OUTPUT:
            return Place(Role.SCRATCH, 0, argument.offset)
        if isinstance(argument, Place) and argument.role is Role.SCRATCH:
            return replace(argument, offset=argument.offset + offset)
        return argument

    return replace(call, arguments=tuple(place(a) for a in call.arguments))
