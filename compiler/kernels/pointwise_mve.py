# SPDX-License-Identifier: Apache-2.0
"""Helium 1x1 convolution with stride 1: a matrix product over all pixels, straight from the input."""

from __future__ import annotations

from dataclasses import dataclass

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
from compiler.kernels.packing import folded_bias, overlap_depth
from compiler.kernels.problems import Conv2D
from compiler.kernels.products_mve import (
    OUTPUT_PARAMETERS,
    PIXELS,
    ProductShape,
    channel_records,
    emit_products,
)
from compiler.kernels.vector_mve import CHUNK, RequantizeMode, copy_bytes

GROUPS = (4, 8)


@dataclass(frozen=True)
class PointwiseMve(Kernel):
    shape: ProductShape

    parameters = ("input", "tail", "weights", "records", "groups", "pixels", *OUTPUT_PARAMETERS)
    options = CompileOptions(flags=("-enable-misched=false", "-disable-cgp"))

    @property
    def name(self) -> str:
        return f"pointwise_mve_{self.shape.name}"

    def build(self, f: KernelFunction) -> None:
        shape, pixels, tail = self.shape, f.integer("pixels"), None
        if shape.short:
            tail = f.pointer("tail")
            last = f.mul(f.sub(pixels, shape.group), shape.stride)
            copy_bytes(f, tail, f.offset(f.pointer("input"), last), shape.group * shape.stride)
        emit_products(
            f,
            shape,
            f.pointer("input"),
            f.pointer("weights"),
            f.pointer("records"),
            f.pointer("output"),
            f.integer("groups"),
            pixels,
            tail,
        )


def takes(pixels: int, depth: int) -> bool:
    """Whether there are pixels enough."""
    return pixels >= PIXELS and (depth >= CHUNK or pixels > 8)


def lower(layer: Conv2D) -> Lowered:
    """A pointwise layer of at least four pixels, more than eight of less than 16 channels. Reads nothing outside the
    input."""
    w, r = layer.window, layer.requantization
    pixels = w.output_height * w.output_width
    assert takes(pixels, w.input_channels)
    mode = RequantizeMode.of(r)
    depth = w.input_channels
    weights = overlap_depth(layer.weights.reshape(w.output_channels, depth), CHUNK)
    shape = ProductShape.of(depth, pixels, w.output_channels, mode, GROUPS)
    bias = folded_bias(layer.weights.reshape(w.output_channels, depth), layer.bias, layer.input_zero_point)
    call = KernelCall(
        PointwiseMve(shape),
        (
            INPUT,
            SCRATCH,
            Constant(weights.tobytes(), CHUNK),
            Constant(channel_records(bias, r, mode).tobytes()),
            *shape.counts(pixels),
            OUTPUT,
            w.output_channels,
            r.zero_point,
            r.minimum,
            r.maximum,
        ),
    )
    return Lowered((call,), shape.group * depth + CHUNK if shape.short else 0, layer.macs)
