# SPDX-License-Identifier: Apache-2.0
"""Convolutions, depthwise ones and fully connected layers to calls of `CodedConv`."""

from __future__ import annotations

import numpy as np

from compiler.kernels.dsp.row_ring import RING_PARAMETERS, RingPlan
from compiler.kernels.kernel import INPUT, OUTPUT, Argument, Constant, KernelCall, Lowered, Place, Role
from compiler.kernels.overlap import from_ring
from compiler.kernels.packing import Int64Array, accumulator_bounds
from compiler.kernels.problems import DepthwiseConv2D
from compiler.kernels.scalar.coded import CodedConv, TapGroup
from compiler.kernels.scalar.conv_product import Product
from compiler.kernels.scalar.shift_add import ShiftRescale, rescale

TAPS_AT_ONCE = 8
"""Inputs that registers hold beside a sum."""
MOST_WEIGHTS = 2048
"""Weights that are not zero; more take LLVM seconds, and flash that such parts do not have."""


def lower(product: Product, clusters: int = 1) -> Lowered | None:
    """The layer with its weights in code; only inputs that are `clusters` apart have outputs in common. None where
    weights are too many, or a channel's outputs cannot be had by shifts."""
    w = product.window
    if product.filter_zero_point or (w.dilation_height, w.dilation_width) != (1, 1):
        return None
    weights = product.weights.reshape(w.output_channels, w.kernel_height, -1)
    rescales = _rescales(product) if np.count_nonzero(weights) <= MOST_WEIGHTS else None
    if rescales is None:
        return None
    ring = not w.is_pointwise
    plan = RingPlan.of(w)
    kernel = CodedConv(
        groups=_groups(weights, clusters),
        rescales=rescales,
        kernel_rows=w.kernel_height,
        pixel_bytes=w.stride_width * w.input_channels,
        copy_bytes=plan.copy_bytes if ring else 1,
        ring=ring,
    )
    sums = plan.bytes if ring else 0
    pixels = w.output_height * w.output_width
    bias = product.bias - product.input_zero_point * weights.sum(axis=(1, 2))
    entries: dict[str, Argument] = {
        "input": INPUT,
        "output": OUTPUT,
        "biases": Constant((bias & 0xFFFFFFFF).astype("<u4").tobytes()),
        "sums": Place(Role.SCRATCH, offset=sums),
        "output_rows": w.output_height if ring else 1,
        "output_row": (w.output_width if ring else pixels) * w.output_channels,
        "row_stride": w.stride_height,
        **dict(zip(RING_PARAMETERS, plan.arguments(w, product.input_zero_point), strict=True)),
    }
    call = KernelCall(kernel, tuple(entries[name] for name in CodedConv.parameters))
    copies = 2 * w.input_height * w.input_width * w.input_channels if ring else 0
    return Lowered(
        (call,),
        sums + 4 * w.output_channels,
        product.macs,
        instructions=pixels * kernel.steps + copies,
        overlaps=(from_ring(w),) if ring else (),
    )


def lower_depthwise(layer: DepthwiseConv2D) -> Lowered | None:
    """As `lower`: the layer is a convolution in which other channels' weights are zero."""
    w = layer.window
    spread = np.zeros((w.output_channels, w.kernel_height, w.kernel_width, w.input_channels), np.int64)
    outputs = np.arange(w.output_channels)
    spread[outputs, :, :, outputs // layer.multiplier] = layer.weights.transpose(2, 0, 1)
    weights = spread.reshape(w.output_channels, w.kernel_height, -1)
    product = Product(w, weights, layer.bias, layer.input_zero_point, 0, layer.requantization, layer.macs)
    return lower(product, w.input_channels)


def _rescales(product: Product) -> tuple[ShiftRescale, ...] | None:
    flat = product.weights.reshape(len(product.weights), -1)
    bounds = accumulator_bounds(flat, product.bias, product.input_zero_point)
    found = []
    for channel, (low, high) in enumerate(zip(*bounds, strict=True)):
        one = rescale(product.requantization, channel, int(low), int(high))
        if one is None:
            return None
        found.append(one)
    return tuple(found)


def _groups(weights: Int64Array, clusters: int) -> tuple[TapGroup, ...]:
    """The taps of weights [outputs, rows, taps] in groups of TAPS_AT_ONCE at most, those that are `clusters` apart in a
    row together. A group's outputs are those with a weight for one of its taps."""
    places = [(row, tap) for row in range(weights.shape[1]) for tap in range(weights.shape[2])]
    groups = []
    for cluster in range(clusters):
        members = [place for place in places if place[1] % clusters == cluster]
        for part in np.array_split(np.array(members), -(-len(members) // TAPS_AT_ONCE)):
            taps = [(int(row), int(tap)) for row, tap in part if weights[:, row, tap].any()]
            own = np.stack([weights[:, row, tap] for row, tap in taps], 1) if taps else np.zeros((len(weights), 0))
            outputs = [(int(o), tuple(own[o].tolist())) for o in np.flatnonzero(own.any(axis=1))]
            if outputs:
                groups.append(TapGroup(tuple(taps), tuple(outputs)))
    return tuple(groups)
