# SPDX-License-Identifier: Apache-2.0
"""Elementwise kernels on emulated cores give the reference's bytes for all inputs of a byte, and for many others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.graph import DType
from compiler.ops import operators
from compiler.ops.definition import OperatorView
from compiler.ops.leaky_relu import LeakyReluAttributes
from tests.harness import isa_of, run_layer
from tests.unit.compiler.ops.build import tensor, view

SLOWER = ("cortex-m4f", "rv32imac", "rv32ec")
CORES = ("cortex-m0", "rv32imafc", *(pytest.param(core, marks=pytest.mark.sweep) for core in SLOWER))
FLOATS = np.concatenate(
    [
        np.array(
            [0.0, -0.0, np.inf, -np.inf, np.nan, 0.625, -0.625, 16.7, -9.0, -9.1, 1e-45, 88.7, 88.8, -103.9], "f4"
        ),
        np.array([-104.0, -87.5, 127.9, -128.0, 200.0, 0.49999997, 0.5, -0.5, 1.5, 2.5, -2.5, 8388607.0, 1e30], "f4"),
        np.array([0xFFC00000, 0xFF800001, 0x7F800001], np.uint32).view(np.float32),
        np.linspace(-20, 20, 200, dtype=np.float32),
        np.geomspace(1e-30, 80, 50, dtype=np.float32),
    ]
)


def check(core: str, v: OperatorView, x: np.ndarray, folder: Path) -> None:
    definition = operators()[v.operator.op]
    assert [c(v) for c in definition.constraints if c(v)] == []
    (expected,) = definition.reference(v, [x])
    ((found,),) = run_layer(core, definition.lower(v, isa_of(core)), [[x]], [(v.output().dtype, x.shape)], folder)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("op", ["LOGISTIC", "TANH"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16, DType.FLOAT32], ids=lambda t: t.name)
def test_sigmoids(core: str, op: str, dtype: DType, tmp_path: Path) -> None:
    scale: float | None = {DType.INT16: 0.0003, DType.FLOAT32: None}.get(dtype, 0.05)
    out_scale, zero_point = {
        DType.INT8: (1 / 256, -128) if op == "LOGISTIC" else (1 / 128, 0),
        DType.UINT8: (1 / 256, 0),
        DType.INT16: (1 / 32768, 0),
        DType.FLOAT32: (None, 0),
    }[dtype]
    inputs: dict[DType, np.ndarray] = {
        DType.INT8: np.arange(-128, 127, dtype=np.int8),
        DType.UINT8: np.arange(255, dtype=np.uint8),
        DType.INT16: np.arange(-32768, 32768, 97).astype(np.int16),
        DType.FLOAT32: FLOATS,
    }
    x = inputs[dtype]
    source = tensor(0, x.shape, dtype, scale, 3 if dtype is DType.INT8 else 0)
    check(core, view(op, [source], tensor(1, x.shape, dtype, out_scale, zero_point)), x, tmp_path)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16], ids=lambda t: t.name)
def test_conversions(core: str, dtype: DType, tmp_path: Path) -> None:
    zero_point = {DType.INT8: -17, DType.UINT8: 100, DType.INT16: 0}[dtype]
    limits = np.iinfo(dtype.numpy)
    x = np.linspace(limits.min, limits.max, 256).astype(dtype.numpy)
    quantized = tensor(0, x.shape, dtype, 0.0123, zero_point)
    check(core, view("DEQUANTIZE", [quantized], tensor(1, x.shape, DType.FLOAT32, None)), x, tmp_path / "to float")
    for number, scale in enumerate((1.0, 0.0123)):
        quantized = tensor(1, FLOATS.shape, dtype, scale, zero_point)
        v = view("QUANTIZE", [tensor(0, FLOATS.shape, DType.FLOAT32, None)], quantized)
        check(core, v, FLOATS, tmp_path / f"from float {number}")


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("op", ["ELU", "EXP", "HARD_SWISH", "LOG_SOFTMAX"])
def test_float_functions(core: str, op: str, tmp_path: Path) -> None:
    x = FLOATS[np.isfinite(FLOATS) & (np.abs(FLOATS) < 100)].reshape(1, -1)
    source, output = (tensor(i, x.shape, DType.FLOAT32, None) for i in range(2))
    check(core, view(op, [source], output), x, tmp_path)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16, DType.FLOAT32], ids=lambda t: t.name)
@pytest.mark.parametrize("alpha", [0.3, -1.5])
def test_leaky_relu(core: str, dtype: DType, alpha: float, tmp_path: Path) -> None:
    x = (
        FLOATS
        if dtype is DType.FLOAT32
        else np.arange(-128, 128).astype(dtype.numpy) * (127 if dtype is DType.INT16 else 1)
    )
    x = x.astype(dtype.numpy)
    scales = (None, None) if dtype is DType.FLOAT32 else (0.05, 0.03)
    zero_point = 5 if dtype is DType.INT8 else 0
    source, output = (tensor(i, x.shape, dtype, scale, zero_point) for i, scale in enumerate(scales))
    check(core, view("LEAKY_RELU", [source], output, LeakyReluAttributes(alpha)), x, tmp_path)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8], ids=lambda t: t.name)
def test_hard_swish_of_every_byte_is_near_the_real_function(dtype: DType) -> None:
    lowest = np.iinfo(dtype.numpy).min
    x = np.arange(lowest, lowest + 256).astype(dtype.numpy)
    source, output = tensor(0, x.shape, dtype, 0.05, lowest + 120), tensor(1, x.shape, dtype, 0.03, lowest + 20)
    v = view("HARD_SWISH", [source], output)
    real = 0.05 * (x.astype(float) - (lowest + 120))
    exact = real * np.clip(real + 3, 0, 6) / 6 / 0.03 + lowest + 20
    (found,) = operators()["HARD_SWISH"].reference(v, [x])
    assert np.abs(found - np.clip(exact, lowest, lowest + 255)).max() <= 1
