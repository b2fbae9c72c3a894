# SPDX-License-Identifier: Apache-2.0
"""TRANSPOSE_CONV: phases against the plain scatter for any geometry, kernels under QEMU, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.graph import DType, Tensor
from compiler.kernels.portable.transpose_conv import Scatter, phase_weights, phases
from compiler.numerics import windows
from compiler.ops import operators
from compiler.ops.activation import Activation
from compiler.ops.definition import OperatorView
from compiler.ops.geometry import Padding
from compiler.ops.transpose_conv import TransposeConvAttributes, scattered
from tests.harness import isa_of, run_layer
from tests.unit.compiler.ops.build import evaluate, refusal, tensor, view

SAME = TransposeConvAttributes(Padding.SAME, 2, 2)


def test_phases_equal_the_scatter_for_many_geometries() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        height, width, kernel_height, kernel_width = rng.integers(1, 6, 4).tolist()
        stride_height, stride_width = rng.integers(1, 5, 2).tolist()
        pad_top, pad_left = int(rng.integers(0, kernel_height)), int(rng.integers(0, kernel_width))
        outputs = rng.integers(1, 14, 2).tolist()
        s = Scatter(
            height,
            width,
            2,
            outputs[0],
            outputs[1],
            3,
            kernel_height,
            kernel_width,
            stride_height,
            stride_width,
            pad_top,
            pad_left,
        )
        x = rng.integers(-9, 10, (height, width, 2))
        weights = rng.integers(-9, 10, (3, kernel_height, kernel_width, 2))
        found = np.zeros((*outputs, 3), np.int64)
        for phase in phases(s):
            part = windows(x, phase.window, 0)
            sums = np.einsum("yxijc,oijc->yxo", part, phase_weights(s, phase, weights))
            rows = phase.rows.first + np.arange(phase.rows.outputs) * stride_height
            columns = phase.columns.first + np.arange(phase.columns.outputs) * stride_width
            found[np.ix_(rows, columns)] = sums
        np.testing.assert_array_equal(found, scattered(s, x, weights, np.int64), str(s))


def layer(
    dtype: DType,
    output: tuple[int, int],
    attributes: TransposeConvAttributes,
    kernel: tuple[int, int] = (3, 3),
    bias: DType | None = DType.INT32,
    images: int = 1,
) -> OperatorView:
    """2 channels of 3x4 cells to 3 channels."""
    rng = np.random.default_rng(2)
    scale = 0.01 if dtype is not DType.FLOAT32 else None
    zero_point = 5 if dtype is DType.INT8 else 0
    is_float = dtype is DType.FLOAT32
    filters = rng.normal(0, 1, (3, *kernel, 2)) if is_float else rng.integers(-127, 128, (3, *kernel, 2))
    biases = rng.integers(-2000, 2000, 3)
    operands: list[Tensor | None] = [
        tensor(0, (4,), DType.INT32, None, data=[images, *output, 3]),
        tensor(
            1, (3, *kernel, 2), dtype if is_float else DType.INT8, None if is_float else (0.02, 0.03, 0.01), 0, filters
        ),
        tensor(2, (images, 3, 4, 2), dtype, scale, zero_point),
        None if bias is None else tensor(3, (3,), bias, None, data=biases),
    ]
    result = tensor(
        4, (images, *output, 3), dtype, None if is_float else 0.01 if dtype is DType.INT16 else 0.3, -zero_point
    )
    return view("TRANSPOSE_CONV", operands, result, attributes)


CASES = {
    "same": (DType.INT8, (6, 8), SAME, (3, 3), DType.INT32),
    "valid": (
        DType.INT8,
        (7, 9),
        replace(SAME, padding=Padding.VALID, activation=Activation.RELU),
        (3, 3),
        DType.INT32,
    ),
    "kernel below stride": (DType.INT8, (9, 8), TransposeConvAttributes(Padding.SAME, 3, 2), (2, 1), None),
    "beyond": (DType.INT8, (9, 12), replace(SAME, padding=Padding.VALID), (3, 2), DType.INT32),
    "int16": (DType.INT16, (6, 8), SAME, (3, 3), DType.INT64),
    "int16, int32 bias": (DType.INT16, (9, 8), SAME, (3, 3), DType.INT32),
    "float": (DType.FLOAT32, (8, 12), replace(SAME, padding=Padding.VALID), (3, 4), DType.FLOAT32),
    "stride 1": (DType.INT8, (3, 4), TransposeConvAttributes(Padding.SAME, 1, 1), (3, 2), DType.INT32),
}


@pytest.mark.parametrize("core", ["cortex-m4f", "rv32imac"])
@pytest.mark.parametrize("case", CASES)
def test_kernels(core: str, case: str, tmp_path: Path) -> None:
    dtype, output, attributes, kernel, bias = CASES[case]
    v = layer(dtype, output, attributes, kernel, bias, images=2)
    assert refusal(v) is None
    rng = np.random.default_rng(3)
    shape = v.input(2).shape
    if dtype is DType.FLOAT32:
        x = rng.normal(0, 1, shape).astype(np.float32)
    else:
        x = rng.integers(-128, 128, shape).astype(dtype.numpy)
    (expected,) = operators()["TRANSPOSE_CONV"].reference(v, [v.input(0).data, v.input(1).data, x, None])
    lowered = operators()["TRANSPOSE_CONV"].lower(v, isa_of(core))
    # The harness binds inputs by position; the image is the third.
    unused = np.zeros(4, np.int8)
    ((found,),) = run_layer(core, lowered, [[unused, unused, x]], [(dtype, v.output().shape)], tmp_path)
    if dtype is DType.FLOAT32:
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    else:
        np.testing.assert_array_equal(found, expected)
        assert len(np.unique(expected)) > 9


def test_what_is_refused() -> None:
    def got(v: OperatorView, **changed: Any) -> str:
        return refusal(OperatorView(v.graph, replace(v.operator, **changed))) or ""

    good = layer(DType.INT8, (6, 8), SAME)
    assert "strides (0, 2)" in got(good, attributes=replace(SAME, stride_height=0))
    assert "fused activation" in got(good, attributes=replace(SAME, activation=Activation.TANH))
    other = view(
        "TRANSPOSE_CONV",
        [tensor(0, (4,), DType.INT32, None, data=[1, 6, 9, 3]), *good.inputs[1:]],
        good.output(),
        SAME,
    )
    assert "[1, 6, 9, 3] for an output of [1, 6, 8, 3]" in (refusal(other) or "")
    assert "inputs" in got(good, inputs=good.operator.inputs[:2])


def test_a_shape_known_at_run_time_only_is_the_stated_one() -> None:
    good = layer(DType.INT8, (6, 8), SAME)
    dynamic = view("TRANSPOSE_CONV", [tensor(0, (4,), DType.INT32, None), *good.inputs[1:]], good.output(), SAME)
    assert refusal(dynamic) is None
    x = np.ones((1, 3, 4, 2), np.int8)
    np.testing.assert_array_equal(evaluate(dynamic, [0, 0, 0, 0], x), evaluate(good, x))
