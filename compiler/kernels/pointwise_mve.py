# SPDX-License-Identifier: Apache-2.0
"""Helium 1x1 convolution with stride 1: a matrix product over all pixels, straight from the input."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.kernels.kernel import INPUT, OUTPUT, CompileOptions, Constant, Kernel, KernelCall, KernelFunction, Lowered
from compiler.kernels.packing import folded_bias, pad_depth
from compiler.kernels.problems import Conv2D
from compiler.kernels.products_mve import (
    OUTPUT_PARAMETERS,
    PIXELS,
    ProductShape,
    channel_records,
    emit_products,
)
from compiler.kernels.vector_mve import CHUNK, RequantizeMode

GROUPS = (4, 8)


@dataclass(frozen=True)
class PointwiseMve(Kernel):
    shape: ProductShape

    parameters = ("input", "weights", "records", "groups", "pixels", *OUTPUT_PARAMETERS)
    options = CompileOptions(flags=("-enable-misched=false", "-disable-cgp"))

    @property
    def name(self) -> str:
        return f"pointwise_mve_{self.shape.name}"

    def build(self, f: KernelFunction) -> None:
        emit_products(
            f,
            self.shape,
            f.pointer("input"),
            f.pointer("weights"),
            f.pointer("records"),
            f.pointer("output"),
            f.integer("groups"),
            f.integer("pixels"),
        )


def lower(layer: Conv2D) -> Lowered:
    """A pointwise layer of at least four pixels. Reads up to 15 bytes beyond the input where the depth is no multiple
    of 16."""
    w, r = layer.window, layer.requantization
    pixels = w.output_height * w.output_width
    assert w.is_pointwise and pixels >= PIXELS
    mode = RequantizeMode.of(r)
    depth = w.input_channels
    weights = pad_depth(layer.weights.reshape(w.output_channels, depth), CHUNK)
    shape = ProductShape.of(weights.shape[1] // CHUNK, depth, pixels, w.output_channels, mode, GROUPS)
    bias = folded_bias(layer.weights.reshape(w.output_channels, depth), layer.bias, layer.input_zero_point)
    call = KernelCall(
        PointwiseMve(shape),
        (
            INPUT,
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
    return Lowered((call,), 0, layer.macs)
