# SPDX-License-Identifier: Apache-2.0
"""Random chains of operators that can be fused row by row: windows, sums of two branches, activations; with further
inputs and outputs."""

from __future__ import annotations

import numpy as np

from compiler.model import Model
from tests.fuzz.draft import Draft, clamp, extent
from tests.fuzz.layers import weighted
from tests.fuzz.models import Random, random_rows

CHANNELS = (2, 4, 8, 12, 16, 24)
"""Of tensors but some inputs."""
LEAST = 3
"""Rows of a tensor that has a further window."""


def random_chain(seed: int) -> Random:
    """The same model for the same seed."""
    draft = Draft(np.random.default_rng(seed))
    dtype = draft.choice("int8", "int8", "int8", "int16", "float32")
    shape = (1, draft.integer(8, 19), draft.integer(2, 7), draft.choice(*CHANNELS, 1, 3))
    draft.inputs = [draft.add(shape, dtype)]
    at = _window(draft, draft.inputs[0])
    passed = []
    for _ in range(draft.integer(2, 4)):
        at = draft.choice(_branches, _within, _window, _window)(draft, at)
        passed.append(at)
    more = [draft.choice(*passed)] if draft.chance(0.15) else []
    rows = tuple(random_rows(draft, draft.tensors[i].shape, dtype) for i in draft.inputs)
    return Random(Model(f"chain_{seed}.tflite", draft.finish(more)), rows)


def _branches(draft: Draft, at: int) -> int:
    """x + f(x), f(x) + g(x), or f(x) and another input."""
    one = _window(draft, at, still=True)
    other = draft.choice(lambda: at, lambda: _window(draft, at, still=True), lambda: _input_like(draft, at))()
    x, y = draft.tensors[one], draft.tensors[other]
    if x.shape != y.shape:
        return one
    op = draft.choice("ADD", "ADD", "MUL")
    output = draft.add(x.shape, x.dtype, scale=2 * max(x.scale, y.scale) if op == "ADD" else 60 * x.scale * y.scale)
    pair = (one, other) if draft.chance(0.5) else (other, one)
    draft.operator(op, pair, (output,), f"{op.title()}Options", FusedActivationFunction=clamp(draft))
    return output


def _input_like(draft: Draft, at: int) -> int:
    x = draft.tensors[at]
    draft.inputs.append(draft.add(x.shape, x.dtype, x))
    return draft.inputs[-1]


def _within(draft: Draft, at: int) -> int:
    """What computes each row from the same row."""
    x = draft.tensors[at]
    _, height, width, channels = x.shape
    op = draft.choice("RELU", "PAD", "CONCATENATION")
    if op == "RELU" or channels > max(CHANNELS):
        y = draft.add(x.shape, x.dtype, x)
        draft.operator("RELU", (at,), (y,))
    elif op == "PAD":
        y = draft.add((1, height, width + 1, channels + 4), x.dtype, x)
        draft.operator("PAD", (at, draft.constant(np.array([[0, 0], [0, 0], [0, 1], [4, 0]], np.int32))), (y,))
    else:
        y = draft.add((1, height, width, 2 * channels), x.dtype, x)
        draft.operator("CONCATENATION", (at, at), (y,), "ConcatenationOptions", Axis=3)
    return y


def _window(draft: Draft, at: int, still: bool = False) -> int:
    """A window over tensor `at`; `still` keeps height and width."""
    x = draft.tensors[at]
    _, height, width, channels = x.shape
    square = draft.choice(1, 2, 3, 3)
    kernel = min(square, height), min(draft.choice(square, 1, 3), width)
    same = still or draft.chance(0.7) or height < LEAST
    stride = 1 if still or height < LEAST else draft.choice(1, 1, 2, 3)
    kind = draft.choice("CONV_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "AVERAGE_POOL_2D")
    if channels % 2:
        kind = "CONV_2D"
    apart = draft.choice(1, 1, 2, 3) if stride == 1 and same and "POOL" not in kind else 1
    pairs = zip((height, width), kernel, (apart, 1), strict=True)
    sizes = tuple(extent(size, k, stride, dilation, same) for size, k, dilation in pairs)
    padding = 0 if same else 1
    outputs = channels if channels % 2 == 0 and (still or kind != "CONV_2D") else draft.choice(*CHANNELS)
    if "POOL" in kind:
        y = draft.add((1, *sizes, channels), x.dtype, x)
        draft.operator(
            kind, (at,), (y,), "Pool2DOptions", Padding=padding, FilterHeight=kernel[0], FilterWidth=kernel[1],
            StrideH=stride, StrideW=stride, FusedActivationFunction=clamp(draft),
        )  # fmt: skip
        return y
    by_channel = kind == "DEPTHWISE_CONV_2D"
    shape = (1, *kernel, channels) if by_channel else (outputs, *kernel, channels)
    weights, bias, scale = weighted(draft, x, shape, 3 if by_channel else 0, at)
    y = draft.add((1, *sizes, outputs), x.dtype, scale=scale)
    options = {"DepthMultiplier": 1} if by_channel else {}
    draft.operator(
        kind, (at, weights, bias), (y,), "DepthwiseConv2DOptions" if by_channel else "Conv2DOptions", Padding=padding,
        StrideH=stride, StrideW=stride, DilationHFactor=apart, DilationWFactor=1, FusedActivationFunction=clamp(draft),
        **options,
    )  # fmt: skip
    return y
