# SPDX-License-Identifier: Apache-2.0
"""What the pools have in common: options, constraints, the windows of the reference, lowering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable.loops import ELEMENTS, Element
from compiler.kernels.problems import Window
from compiler.numerics import round_half_away_divide
from compiler.ops import layers
from compiler.ops.activation import INTEGER_RANGE, Activation, float_range, quantized_range
from compiler.ops.bands import sliding
from compiler.ops.constraints import (
    FLOAT,
    Q8,
    Q16,
    dtypes,
    inputs_between,
    near_quantization,
    output_dtype_as_input,
    quantized_per_tensor,
    rank,
)
from compiler.ops.definition import Array, Band, Constraint, OperatorDefinition, OperatorView
from compiler.ops.geometry import AnyPadding, Padding, Slide

Fold = Callable[[Array, Array, bool], Array]
Pool = Callable[[Isa, Window, Element, tuple[float, float] | None, bool], Lowered]


@dataclass(frozen=True)
class PoolAttributes:
    """Options of the pools. `from_uint8`: the pool was uint8, whose average rounds ties up."""

    padding: AnyPadding
    stride_height: int
    stride_width: int
    filter_height: int
    filter_width: int
    activation: Activation = Activation.NONE
    from_uint8: bool = False


def parse(options: Any) -> PoolAttributes:
    if options is None:
        return PoolAttributes(Padding.SAME, 0, 0, 0, 0)
    return PoolAttributes(
        Padding(options.Padding()),
        options.StrideH(),
        options.StrideW(),
        options.FilterHeight(),
        options.FilterWidth(),
        Activation(options.FusedActivationFunction()),
    )


def slide(view: OperatorView) -> Slide:
    """How the window moves. With SAME padding one of twice the input's size covers all of the input wherever it stands,
    and so does any larger one, which is the same then."""
    a: PoolAttributes = view.attributes
    kernel = a.filter_height, a.filter_width
    if a.padding is Padding.SAME:
        _, height, width, _ = view.input().shape
        kernel = min(a.filter_height, 2 * height), min(a.filter_width, 2 * width)
    return Slide(*kernel, a.stride_height, a.stride_width, a.padding)


def positive_window(view: OperatorView) -> str | None:
    """The window's sizes and strides are at least 1; without padding it is no larger than the input."""
    a: PoolAttributes = view.attributes
    _, height, width, _ = view.input().shape
    sizes = (a.filter_height, a.filter_width, a.stride_height, a.stride_width)
    moved = slide(view)
    if min(sizes) >= 1 and moved.kernel_height <= 2 * height and moved.kernel_width <= 2 * width:
        return None
    return f"window {sizes[:2]} over {(height, width)}, strides {sizes[2:]}"


def consistent_shapes(view: OperatorView) -> str | None:
    """The output has the shape that padding and strides give."""
    batches, height, width, channels = view.input().shape
    expected = (batches, *slide(view).output_shape(height, width), channels)
    got = view.output().shape
    return None if got == expected and min(got) > 0 else f"output {list(got)}, not {list(expected)}"


def clamp_of(view: OperatorView) -> tuple[float, float] | None:
    """The range that the output is clamped to, None where it is the whole range of an integer type."""
    output, activation = view.output(), view.attributes.activation
    if not output.dtype.is_integer:
        return float_range(activation)
    bounds = quantized_range(activation, output)
    return None if bounds == INTEGER_RANGE[output.dtype] else bounds


def cells(x: Array, w: Window) -> tuple[Array, Array]:
    """The windows of one image [H, W, C] as (values [outputs, taps, C], inside [outputs, taps, 1])."""
    rows = np.arange(w.output_height)[:, None] * w.stride_height - w.pad_top + np.arange(w.kernel_height)
    columns = np.arange(w.output_width)[:, None] * w.stride_width - w.pad_left + np.arange(w.kernel_width)
    inside = ((rows >= 0) & (rows < w.input_height))[:, None, :, None]
    inside = inside & ((columns >= 0) & (columns < w.input_width))[None, :, None, :]
    rows, columns = rows.clip(0, w.input_height - 1), columns.clip(0, w.input_width - 1)
    values = x[rows[:, None, :, None], columns[None, :, None, :]]
    taps = w.kernel_height * w.kernel_width
    return values.reshape(-1, taps, x.shape[2]), inside.reshape(-1, taps, 1)


def max_reference(values: Array, inside: Array, ties_up: bool = False) -> Array:
    del ties_up
    lowest = np.finfo(np.float32).min if values.dtype.kind == "f" else np.iinfo(values.dtype).min
    # fmax leaves NaN aside, as the reference's comparison does.
    fold = np.fmax if values.dtype.kind == "f" else np.maximum
    return np.asarray(fold.reduce(np.where(inside, values, lowest).astype(values.dtype), axis=1, initial=lowest))


def average_reference(values: Array, inside: Array, ties_up: bool = False) -> Array:
    count = inside.sum(axis=1)
    if values.dtype.kind != "f":
        total = np.where(inside, values, 0).astype(np.int64).sum(axis=1)
        return (total + count // 2) // count if ties_up else round_half_away_divide(total, count)
    total = np.zeros((values.shape[0], values.shape[2]), np.float32)
    for tap in range(values.shape[1]):
        total = np.where(inside[:, tap], total + values[:, tap], total)
    return np.asarray(total / count.astype(np.float32), np.float32)


def bands(view: OperatorView, rows: range) -> Band | None:
    """As those of any window; none where `slide` does not take the window as the attributes state it, since a band has
    its padding stated."""
    a, moved = view.attributes, slide(view)
    if (moved.kernel_height, moved.kernel_width) != (a.filter_height, a.filter_width):
        return None
    return sliding(slide)(view, rows)


def definition(name: str, fold: Fold, pool: Pool, *constraints: Constraint) -> OperatorDefinition:
    """The definition of a pool that computes `fold` and lowers to `pool`."""

    def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
        (x,) = inputs
        assert x is not None
        output, bounds = view.output(), clamp_of(view)
        window = slide(view).window(view.input(), output)
        pooled = np.stack([fold(*cells(image, window), view.attributes.from_uint8) for image in x])
        if bounds is not None:
            limit = np.finfo(np.float32).max if not output.dtype.is_integer else np.inf
            pooled = np.clip(pooled, max(bounds[0], -limit), min(bounds[1], limit))
        return [pooled.reshape(output.shape).astype(output.dtype.numpy)]

    def lower(view: OperatorView, isa: Isa) -> Lowered:
        source, output = view.input(), view.output()
        window = slide(view).window(source, output)
        one = pool(isa, window, ELEMENTS[source.dtype], clamp_of(view), view.attributes.from_uint8)
        batches = source.shape[0]
        return layers.per_image(one, batches, source.bytes // batches, output.bytes // batches)

    common = (
        inputs_between(1, 1),
        dtypes(0, Q8, Q16, FLOAT),
        output_dtype_as_input(),
        rank(0, 4),
        layers.clamping_activation,
        positive_window,
        consistent_shapes,
        quantized_per_tensor(0),
        near_quantization,
    )
    return OperatorDefinition(name, parse, (*common, *constraints), reference, lower, bands=bands)
