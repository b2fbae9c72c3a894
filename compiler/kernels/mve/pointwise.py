# SPDX-License-Identifier: Apache-2.0
"""Helium 1x1 convolution with stride 1: a matrix product over all pixels, straight from the input."""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.codegen.builder import Value
from compiler.kernels.kernel import (
    INPUT,
    OUTPUT,
    SCRATCH,
    CompileOptions,
    Constant,
    Kernel,
    KernelCall,
    KernelFunction,
    Lowered,
)
from compiler.kernels.mve.products import (
    OUTPUT_PARAMETERS,
    PIXELS,
    ProductShape,
    channel_records,
    emit_products,
    products_cost,
)
from compiler.kernels.mve.vector import CHUNK, RequantizeMode, copy_bytes
from compiler.kernels.overlap import Step, in_steps
from compiler.kernels.packing import folded_bias, overlap_depth
from compiler.kernels.problems import Conv2D

GROUPS = (4, 8)
CUTS = (9, 16, 32, 64)
"""Into how many tiles the pixels may be cut; fewer save hardly any instructions."""


@dataclass(frozen=True)
class PointwiseMve(Kernel):
    """`tiled`: the pixels are copied into scratch memory tile by tile, so that the output may overtake the input."""

    shape: ProductShape
    tiled: bool

    parameters = (
        "input",
        "scratch",
        "weights",
        "records",
        "tiles",
        "groups",
        "pixels",
        "last_groups",
        "last_pixels",
        *OUTPUT_PARAMETERS,
    )
    options = CompileOptions(flags=("-enable-misched=false", "-disable-cgp"))

    @property
    def name(self) -> str:
        return f"pointwise_mve_{self.shape.name}{'_tiled' * self.tiled}"

    def build(self, f: KernelFunction) -> None:
        x, output = f.pointer("input"), f.pointer("output")
        if self.tiled:
            f.loop(f.integer("tiles"), lambda index, carried: self._tile(f, index, *carried), [x, output])
            return
        shape, pixels, tail = self.shape, f.integer("last_pixels"), None
        if shape.short:
            tail = f.pointer("scratch")
            last = f.mul(f.sub(pixels, shape.group), shape.stride)
            copy_bytes(f, tail, f.offset(x, last), shape.group * shape.stride)
        weights, records = f.pointer("weights"), f.pointer("records")
        emit_products(f, shape, x, weights, records, output, f.integer("last_groups"), pixels, tail)

    def _tile(self, f: KernelFunction, index: Value, x: Value, output: Value) -> list[Value]:
        last = f.compare("==", f.add(index, 1), f.integer("tiles"))
        pixels = f.select(last, f.integer("last_pixels"), f.integer("pixels"))
        groups = f.select(last, f.integer("last_groups"), f.integer("groups"))
        size, copy = f.mul(pixels, self.shape.stride), f.pointer("scratch")
        copy_bytes(f, copy, x, size)
        weights, records = f.pointer("weights"), f.pointer("records")
        parts = f.select(last, 2, 1)
        emit_products(f, self.shape, copy, weights, records, output, groups, pixels, parts=parts)
        return [f.offset(x, size), f.offset(output, f.mul(pixels, f.integer("channels")))]


def takes(pixels: int, depth: int) -> bool:
    """Whether there are pixels enough."""
    return pixels >= PIXELS and (depth >= CHUNK or pixels > 8)


def lower(layer: Conv2D) -> Lowered:
    """A pointwise layer of at least four pixels, more than eight of less than 16 channels. Reads nothing outside the
    input. Its alternatives are tiled."""
    w = layer.window
    pixels = w.output_height * w.output_width
    assert takes(pixels, w.input_channels)
    shape = ProductShape.of(
        w.input_channels, pixels, w.output_channels, RequantizeMode.of(layer.requantization), GROUPS
    )
    sizes = sorted({shape.group * -(-pixels // (shape.group * cuts)) for cuts in CUTS}, reverse=True)
    tiles = [size for size in sizes if size + shape.group <= pixels and not shape.few]
    return replace(_lower(layer, shape, pixels), alternatives=tuple(_lower(layer, shape, size) for size in tiles))


def _lower(layer: Conv2D, shape: ProductShape, tile: int) -> Lowered:
    """`tile` pixels at a time; the last tile takes what is left, and another one's where that is less than a group."""
    w, r = layer.window, layer.requantization
    pixels, depth, outputs = w.output_height * w.output_width, w.input_channels, w.output_channels
    tiled = tile < pixels
    firsts = list(range(0, max(pixels - shape.group, 0) + 1, tile))
    last = pixels - firsts[-1]
    weights = overlap_depth(layer.weights.reshape(outputs, depth), CHUNK)
    bias = folded_bias(layer.weights.reshape(outputs, depth), layer.bias, layer.input_zero_point)
    last_groups, _ = shape.counts(last)
    call = KernelCall(
        PointwiseMve(shape, tiled),
        (
            INPUT,
            SCRATCH,
            Constant(weights.tobytes(), CHUNK),
            Constant(channel_records(bias, r, shape.mode).tobytes()),
            len(firsts),
            tile // shape.group,
            tile,
            last_groups,
            last,
            OUTPUT,
            outputs,
            r.zero_point,
            r.minimum,
            r.maximum,
        ),
    )
    chunks = -(-depth // CHUNK)
    products = [products_cost(chunks, count, outputs, GROUPS) for count in (tile, last)]
    instructions = (len(firsts) - 1) * products[0] + products[1] + 3 * chunks * pixels * tiled
    steps = [Step(first * depth, (first + tile) * outputs) for first in firsts[:-1]]
    overlap = in_steps([*steps, Step(firsts[-1] * depth, pixels * outputs)], pixels * depth, reads_first=tiled)
    copied = max(tile, last) if tiled else shape.group if shape.short else 0
    scratch = copied * depth + CHUNK if copied else 0
    return Lowered((call,), scratch, layer.macs, instructions=instructions, overlaps=(overlap,))
