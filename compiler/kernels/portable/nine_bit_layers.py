# SPDX-License-Identifier: Apache-2.0
"""int8 convolutions whose weights, less a filter zero point, need up to 9 bits (legacy uint8 models).

The core's int8 kernel computes all output channels with weights cut to int8, then those channels whose weights were
cut are computed again, one by one, with int16 weights. Such channels are few: in a network trained for uint8 most
layers have one. Where they are the majority, the first step is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from compiler.codegen.builder import Value
from compiler.isa import Isa
from compiler.kernels.kernel import Constant, KernelCall, KernelFunction, Lowered
from compiler.kernels.portable.rescale import Form, Rescale, emit_rescale, load_bias, rescale_of
from compiler.kernels.portable.windows import Patch, WindowKernel, window_arguments
from compiler.kernels.problems import Conv2D, DepthwiseConv2D, Requantization, Window

LARGEST_DIFFERENCE = 255
"""Of an int8 input and its zero point."""
WEIGHT_BYTES = 2


@dataclass(frozen=True)
class ChannelKernel(WindowKernel):
    """One output channel. A row of taps is a run of elements `element_step` apart, or (`nested`) taps of `depth`
    adjacent elements each."""

    form: Form
    nested: bool

    parameters: ClassVar[tuple[str, ...]] = (
        *WindowKernel.parameters, "weights", "channel", "row_weights", "depth", "element_step", "input_zero_point",
        "output_zero_point", "minimum", "maximum",
    )  # fmt: skip

    @property
    def name(self) -> str:
        return f"channel_nine_bits_{self.form.value}{'_nested' if self.nested else ''}"

    def window(self, f: KernelFunction, patch: Patch, output: Value, cut: Value) -> None:
        depth, step, zero_point = f.integer("depth"), f.integer("element_step"), f.integer("input_zero_point")
        channel, row_weights = f.pointer("channel"), f.integer("row_weights")

        def element(_: Value, carried: list[Value]) -> list[Value]:
            cell, weights, total = carried
            product = f.mul(f.sub(f.load_s8(cell), zero_point), f.load_s16(weights))
            return [f.offset(cell, step), f.offset(weights, WEIGHT_BYTES), f.add(total, product)]

        def tap(_: Value, carried: list[Value]) -> list[Value]:
            cell, *rest = carried
            _, *rest = f.loop(depth, element, [cell, *rest])
            return [f.offset(cell, f.integer("tap_column_step")), *rest]

        count = patch.column_taps if self.nested else f.mul(patch.column_taps, depth)

        def tap_row(_: Value, carried: list[Value]) -> list[Value]:
            row, weights, total = carried
            *_, total = f.loop(count, tap if self.nested else element, [row, weights, total])
            return [f.offset(row, f.integer("tap_row_step")), f.offset(weights, row_weights), total]

        start = f.offset(f.pointer("weights"), patch.tap_offset)
        *_, total = f.loop(patch.row_taps, tap_row, [patch.cell, start, load_bias(f, self.form, channel)])
        value = emit_rescale(f, self.isa, self.form, total, channel, f.integer("minimum"), f.integer("maximum"))
        f.store_i8(f.add(value, f.integer("output_zero_point")), output)


def conv_2d(isa: Isa, layer: Conv2D) -> Lowered:
    """A convolution of one image; where weights exceed int8, each window must cover a cell of the input."""
    wide = _beyond_int8(layer.weights, (1, 2, 3))
    base = _base(wide) and isa.conv_2d(replace(layer, weights=_cut(layer.weights)))
    w = layer.window
    nested = w.dilation_width != 1
    weights = layer.weights.reshape(w.output_channels, -1)
    recomputed = _channels(
        isa, w, weights, wide, layer.bias, layer.input_zero_point, layer.requantization, nested, (w.input_channels, 1)
    )
    return _joined(base, recomputed, layer.macs)


def depthwise_conv_2d(isa: Isa, layer: DepthwiseConv2D) -> Lowered:
    """A depthwise convolution of one image; where weights exceed int8, each window must cover a cell of the input."""
    wide = _beyond_int8(layer.weights, (0, 1))
    base = _base(wide) and isa.depthwise_conv_2d(replace(layer, weights=_cut(layer.weights)))
    w = layer.window
    weights = layer.weights.reshape(-1, w.output_channels).T
    step = w.dilation_width * w.input_channels
    recomputed = _channels(
        isa, w, weights, wide, layer.bias, layer.input_zero_point, layer.requantization, False, (1, step),
        layer.multiplier,
    )  # fmt: skip
    return _joined(base, recomputed, layer.macs)


def _beyond_int8(weights: NDArray[np.integer], axes: tuple[int, ...]) -> NDArray[np.bool_]:
    """Which output channels have weights outside int8."""
    return np.asarray((weights.max(axis=axes) > 127) | (weights.min(axis=axes) < -128))


def _base(wide: NDArray[np.bool_]) -> bool:
    return 2 * int(wide.sum()) <= wide.size


def _cut(weights: NDArray[np.integer]) -> NDArray[np.int8]:
    return np.asarray(np.clip(weights, -128, 127), np.int8)


def _channels(
    isa: Isa,
    w: Window,
    weights: NDArray[np.integer],
    wide: NDArray[np.bool_],
    bias: NDArray[np.int64],
    input_zero_point: int,
    r: Requantization,
    nested: bool,
    elements: tuple[int, int],
    multiplier: int = 0,
) -> tuple[KernelCall, ...]:
    """A call for each wide channel (for all where there is no base). `weights` [channels, taps], `elements`: how many
    a tap has and the step between a row's; `multiplier` output channels read one input channel (0: all)."""
    depth, step = elements
    products = np.abs(weights.astype(np.int64)).sum(axis=1) * LARGEST_DIFFERENCE
    rescale: Rescale = rescale_of(r, bias, products, wide=False)
    kernel = ChannelKernel(isa, rescale.form, nested)
    chosen = np.flatnonzero(wide) if _base(wide) else np.arange(wide.size)

    def call(channel: int) -> KernelCall:
        tap = depth * WEIGHT_BYTES
        source = channel // multiplier if multiplier else 0
        return KernelCall(
            kernel,
            (
                *window_arguments(w, 1, tap, channel, source),
                Constant(weights[channel].astype("<i2").tobytes()),
                Constant(rescale.part(channel, channel + 1)),
                w.kernel_width * tap,
                depth,
                step,
                input_zero_point,
                r.zero_point,
                r.minimum - r.zero_point,
                r.maximum - r.zero_point,
            ),
        )

    return tuple(call(int(channel)) for channel in chosen)


def _joined(base: Lowered | bool, recomputed: tuple[KernelCall, ...], macs: int) -> Lowered:
    """The base (False: none) and its alternatives, each followed by the calls that correct it, which read the input
    again."""
    if not isinstance(base, Lowered):
        return Lowered(recomputed, macs=macs)
    if not recomputed:
        return base
    one, *others = (
        replace(lowered, calls=(*lowered.calls, *recomputed), overlaps=(), alternatives=())
        for lowered in (base, *base.alternatives)
    )
    return replace(one, alternatives=tuple(others))
