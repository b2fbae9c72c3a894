# SPDX-License-Identifier: Apache-2.0
"""Floats to quantised values and back in integers alone give the bits of single precision."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.graph import DType
from compiler.kernels.portable import float_conversions
from compiler.kernels.portable.arrays import ArrayIsa, evaluate
from compiler.ops import operators
from compiler.ops.quantize import quantize_floats
from tests.harness import isa_of, run_layer
from tests.unit.compiler.ops.build import tensor, view

TYPES = (DType.INT8, DType.UINT8, DType.INT16)
SOFT = ("cortex-m0", *(pytest.param(core, marks=pytest.mark.sweep) for core in ("cortex-m3", "rv32imac", "rv32ec")))
SPECIAL = (0, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF)


def scales(rng: np.random.Generator, count: int) -> list[float]:
    """Ordinary ones, powers of two, their neighbours, and the ends of what is supported."""
    drawn = np.exp2(rng.uniform(-120, 99, count)).astype(np.float32)
    usual = rng.uniform(1e-4, 1, count).astype(np.float32)
    powers = np.exp2(rng.integers(-120, 99, 6)).astype(np.float32)
    below = np.nextafter(powers, np.float32(0))
    return [*np.concatenate([drawn, usual, powers, below]).tolist(), 2.0**-125, 2.0**100]


def around_thresholds(scale: float, zero_point: int, dtype: DType) -> np.ndarray:
    """Floats where outputs change, their neighbours, and special ones, of both signs."""
    low, high = bounds(dtype)
    steps = np.arange(1, high - low + 3) - 0.5
    bits = (steps * float(np.float32(scale))).astype(np.float32).view(np.uint32).astype(np.int64)
    near = (bits[:, None] + np.arange(-3, 4)).ravel()
    near = np.concatenate([near[(near >= 0) & (near <= 0x7FFFFFFF)], np.array(SPECIAL)])
    return np.concatenate([near, near | 1 << 31]).astype(np.uint32).view(np.float32)


def bounds(dtype: DType) -> tuple[int, int]:
    limits = np.iinfo(dtype.numpy)
    return int(limits.min), int(limits.max)


def any_zero_point(rng: np.random.Generator, dtype: DType) -> int:
    low, high = bounds(dtype)
    return (low, high, 0, int(rng.integers(low, high + 1)))[rng.integers(4)]


@pytest.mark.parametrize("multiplies", [True, False], ids=["product", "subtraction"])
@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.name)
def test_quantising_agrees_around_all_thresholds(
    dtype: DType, multiplies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ArrayIsa, "has_multiplier", multiplies)
    rng = np.random.default_rng(17)
    for scale in scales(rng, 3 if dtype is DType.INT16 else 40):
        zero_point = any_zero_point(rng, dtype)
        numbers = float_conversions.quantize_numbers(scale, zero_point, *bounds(dtype))
        assert numbers is not None
        x = around_thresholds(scale, zero_point, dtype)
        found = evaluate(float_conversions.quantized, [x], numbers)
        np.testing.assert_array_equal(found, quantize_floats(x, scale, zero_point, dtype.numpy), f"scale {scale!r}")


@pytest.mark.parametrize("scale", [0.0347, 1 / 3, 2.0**-125])
def test_quantising_agrees_on_floats_of_all_kinds(scale: float) -> None:
    x = np.arange(0, 1 << 32, 4099, dtype=np.int64).astype(np.uint32).view(np.float32)
    numbers = float_conversions.quantize_numbers(scale, 5, -128, 127)
    assert numbers is not None
    found = evaluate(float_conversions.quantized, [x], numbers)
    np.testing.assert_array_equal(found, quantize_floats(x, scale, 5, np.dtype(np.int8)))


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.name)
def test_dequantising_agrees_for_every_integer(dtype: DType) -> None:
    rng, (low, high) = np.random.default_rng(23), bounds(dtype)
    q = np.arange(low, high + 1).astype(dtype.numpy)
    for scale in scales(rng, 3 if dtype is DType.INT16 else 40):
        zero_point = any_zero_point(rng, dtype)
        numbers = float_conversions.dequantize_numbers(scale, zero_point, *bounds(dtype))
        assert numbers is not None
        found = evaluate(float_conversions.dequantized(dtype is DType.INT16), [q], numbers)
        expected = (float(np.float32(scale)) * (q.astype(np.int64) - zero_point)).astype(np.float32)
        np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32), f"scale {scale!r}")


def test_other_scales_are_left_to_floats() -> None:
    for scale, zero_point in ((1e-38, 0), (2.0**101, 0), (0.1, 128), (0.1, -129)):
        assert float_conversions.quantize_numbers(scale, zero_point, -128, 127) is None
    for scale, zero_point in ((1e-39, 0), (2.0**111, 0), (0.1, 128)):
        assert float_conversions.dequantize_numbers(scale, zero_point, -128, 127) is None


@pytest.mark.parametrize("core", SOFT)
@pytest.mark.parametrize("scale", [0.0347, 1e-38, 2.0**101], ids=lambda s: f"{s:.3g}")
@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.name)
def test_conversions_on_cores_without_float_unit(core: str, scale: float, dtype: DType, tmp_path: Path) -> None:
    zero_point = {DType.INT8: -17, DType.UINT8: 100, DType.INT16: 0}[dtype]
    every = around_thresholds(scale, zero_point, dtype)
    x = every[:: max(len(every) // 1000, 1)]
    q = np.linspace(*bounds(dtype), 256).astype(dtype.numpy)
    for op, data, types in (("QUANTIZE", x, (DType.FLOAT32, dtype)), ("DEQUANTIZE", q, (dtype, DType.FLOAT32))):
        source, output = (
            tensor(i, data.shape, t, *((None,) if t is DType.FLOAT32 else (scale, zero_point)))
            for i, t in enumerate(types)
        )
        v = view(op, [source], output)
        (expected,) = operators()[op].reference(v, [data])
        lowered = operators()[op].lower(v, isa_of(core))
        ((found,),) = run_layer(core, lowered, [[data]], [(types[1], data.shape)], tmp_path / op)
        np.testing.assert_array_equal(found.view(f"u{found.itemsize}"), expected.view(f"u{found.itemsize}"))
