# SPDX-License-Identifier: Apache-2.0
"""What the lowerings to Winograd kernels share: which layers fit, weights and start values, places, counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from compiler.kernels.dsp.row_ring import RingPlan
from compiler.kernels.kernel import INPUT, OUTPUT, Argument, Constant, Place, Role
from compiler.kernels.packing import Int64Array
from compiler.kernels.problems import Conv2D
from compiler.kernels.winograd.arithmetic import Transform
from compiler.kernels.winograd.kernel import WinogradKernel
from compiler.kernels.winograd.layout import PARAMETERS

QUAD_ORDER = (0, 2, 1, 3)
"""The channels of a quad as they are in `values`."""
_MOST_SHIFT = 31


def fits(layer: Conv2D, transform: Transform, tiles: int, channels: int, strip: int) -> bool:
    """Whether the kernels' walk covers a layer: 3x3, stride 1, whole quads of input channels in aligned rows, and an
    output of at least one group of tiles, `strip` rows of tiles, and one block of channels."""
    w = layer.window
    return (
        (w.kernel_height, w.kernel_width) == (3, 3)
        and (w.stride_height, w.stride_width, w.dilation_height, w.dilation_width) == (1, 1, 1, 1)
        and w.input_channels % 4 == 0
        and w.output_height >= transform.tile * max(strip, 1)
        and w.output_width >= transform.tile * tiles
        and w.output_channels >= channels
    )


def block_starts(channels: int, block: int) -> Int64Array:
    """First channels of the blocks; the last block may overlap the one before."""
    return np.minimum(np.arange(0, channels, block), channels - block)


def transformed(layer: Conv2D, transform: Transform, both_lanes: bool = False) -> tuple[Int64Array, Int64Array]:
    """Weights [outputs, positions, inputs] in the order of `values`, and start values [outputs, positions]: the bias
    with the zero point folded, and what takes the offset of the low lanes (of `both_lanes`) back."""
    w = layer.window
    order = np.arange(w.input_channels).reshape(-1, 4)[:, list(QUAD_ORDER)].ravel()
    weights = transform.transform_weights(layer.weights)[:, :, order]
    bias = layer.bias - (layer.input_zero_point + 128) * layer.weights.astype(np.int64).sum((1, 2, 3))
    moved = weights if both_lanes else weights[:, :, ::2]
    starts = -transform.offset * moved.sum(2)
    starts[:, transform.bias_position] += transform.bias * bias
    return weights, starts


def expandable(layer: Conv2D, transform: Transform, both_lanes: bool = False) -> Int64Array:
    """What the kernels transform on the fly, as words [outputs, ...]: 9 start values, the bias, and the weights of
    each quad, 9 words of four int8."""
    w = layer.window
    moved = layer.weights.astype(np.int64)
    if not both_lanes:
        moved = moved[..., (np.arange(w.input_channels) % 4) < 2]
    starts = -transform.offset * moved.sum(3).reshape(w.output_channels, 9)
    bias = layer.bias - (layer.input_zero_point + 128) * layer.weights.astype(np.int64).sum((1, 2, 3))
    quads = layer.weights.reshape(w.output_channels, 9, -1, 4).transpose(0, 2, 1, 3)
    body = np.ascontiguousarray(quads).view("<i4").reshape(w.output_channels, -1)
    return np.concatenate([starts, transform.bias * bias[:, None], body], 1)


def words(values: Int64Array) -> Constant:
    return Constant(np.asarray(values & 0xFFFFFFFF, np.int64).astype("<u4").tobytes(), 8)


def arguments(
    layer: Conv2D, kernel: WinogradKernel, weights: Constant, records: Constant
) -> tuple[tuple[Argument, ...], int]:
    """The call's arguments in the order of PARAMETERS, and the scratch bytes: ring, values, products, weights."""
    w, transform = layer.window, kernel.transform
    ring = replace(RingPlan.of(w), rows=kernel.ring_rows)
    pixels = kernel.tile * kernel.tiles
    groups = -(-w.output_width // pixels)
    values = -(-ring.bytes // 8) * 8
    products = values + max(kernel.strip, 1) * (groups if kernel.strip else 1) * kernel.group_bytes
    expanded = products + transform.positions * kernel.product_bytes
    end = expanded + (transform.positions * kernel.stream_bytes if kernel.strip else 0)
    last = w.output_width - pixels
    entries: dict[str, Argument] = {
        "input": INPUT,
        "output": OUTPUT,
        "weights": weights,
        "records": records,
        "records_bytes": len(records.data),
        "inverses": words(np.array([transform.inverse << shift for shift in range(_MOST_SHIFT + 1)], object)),
        "values": Place(Role.SCRATCH, offset=values),
        "products": Place(Role.SCRATCH, offset=products),
        "tile_rows": -(-w.output_height // kernel.rows_at_once),
        "last_row": w.output_height - kernel.rows_at_once,
        "groups": groups,
        "last_input": ring.align + last * w.input_channels,
        "last_output": last * w.output_channels,
        "expanded": Place(Role.SCRATCH, offset=expanded) if kernel.strip else 0,
    }
    ring_values = ring.arguments(w, layer.input_zero_point ^ 0x80)
    listed = tuple(entries[name] for name in PARAMETERS if name in entries)
    return (*listed, *ring_values), end
