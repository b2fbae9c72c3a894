# SPDX-License-Identifier: Apache-2.0
"""Elementwise formulas, folds, walks along an axis and products of matrices on emulated cores give the reference's
bits, for extreme values and for many others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.graph import DType, Tensor
from compiler.ops import operators
from compiler.ops.activation import Activation
from compiler.ops.arithmetic import ArithmeticAttributes
from compiler.ops.batch_matmul import BatchMatmulAttributes
from compiler.ops.cumsum import CumsumAttributes
from compiler.ops.definition import OperatorView
from compiler.ops.gelu import GeluAttributes
from compiler.ops.geometry import Padding
from compiler.ops.pooling import PoolAttributes
from compiler.ops.reducing import ReduceAttributes
from tests.harness import isa_of, run_layer
from tests.unit.compiler.ops.build import refusal, tensor, view

SLOWER = ("cortex-m4f", "cortex-m55", "rv32imafc", "rv32ec")
CORES = ("cortex-m0", "rv32imac", *(pytest.param(core, marks=pytest.mark.sweep) for core in SLOWER))
SPECIAL = (
    0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 8388607.5, 4194305.5, 1e-45,
    -1e-45, 1.1754944e-38, 3e-39, 3.4028235e38, -3.4028235e38, 1e30, 3.1415927, 1.5707964, 0.7853982, 1e22, 16777217.0,
)  # fmt: skip
FLOAT_FUNCTIONS = (
    "ABS", "NEG", "CEIL", "FLOOR", "ROUND", "SIN", "COS", "SQUARE", "SIGN", "LOG", "EXP", "SQRT", "RSQRT", "GELU",
)  # fmt: skip
RANDOM = np.random.default_rng(3)
FLOATS = np.concatenate([np.array(SPECIAL, "f4"), RANDOM.normal(0, 4, 101).astype("f4")])
PAIRS = [np.repeat(FLOATS[:40], 40), np.tile(FLOATS[:40], 40)]
INTEGERS = np.concatenate([[0, 1, -1, -(1 << 31), (1 << 31) - 1, 7, -7], RANDOM.integers(-(1 << 31), 1 << 31, 26)])
BYTES = [np.repeat(np.arange(-128, 128, 5), 52), np.tile(np.arange(-128, 128, 5), 52)]
SHORTS = [np.repeat(np.append(np.arange(-32768, 32768, 2111), 32767), 33) for _ in range(2)]
SHORTS[1] = SHORTS[1].reshape(33, 33).T.reshape(-1)


def check(core: str, v: OperatorView, inputs: Sequence[Any], folder: Path) -> None:
    """Compares the first output, and the second where there is one, for the inputs that are not constant."""
    assert refusal(v) is None
    definition = operators()[v.operator.op]
    arrays = [
        np.asarray(x, t.dtype.numpy).reshape(t.shape) for x, t in zip(inputs, v.inputs, strict=True) if t is not None
    ]
    expected = definition.reference(v, arrays)
    given = [x for x, t in zip(arrays, v.inputs, strict=True) if t is not None and not t.is_constant]
    outputs = [(t.dtype, t.shape) for t in v.graph.results(v.operator)]
    (found,) = run_layer(core, definition.lower(v, isa_of(core)), [given], outputs, folder)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_array_equal(got, want)


def plain(index: int, dtype: DType, shape: tuple[int, ...], data: Any = None) -> Tensor:
    return tensor(index, shape, dtype, None, data=data)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(
    "op",
    ["ABS", "NEG", "CEIL", "FLOOR", "ROUND", "SIN", "COS", "SQUARE", "SIGN", "LOG", "EXP", "SQRT", "RSQRT", "GELU"],
)
def test_float_functions(core: str, op: str, tmp_path: Path) -> None:
    attributes = {"GELU": GeluAttributes()}.get(op)
    v = view(op, [plain(0, DType.FLOAT32, FLOATS.shape)], plain(1, DType.FLOAT32, FLOATS.shape), attributes)
    check(core, v, [FLOATS], tmp_path)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("op", ["MUL", "DIV", "MINIMUM", "MAXIMUM", "SQUARED_DIFFERENCE", "FLOOR_DIV", "POW"])
def test_float_pairs(core: str, op: str, tmp_path: Path) -> None:
    attributes = ArithmeticAttributes(Activation.RELU6) if op == "MUL" else ArithmeticAttributes()
    tensors = [plain(i, DType.FLOAT32, PAIRS[0].shape) for i in range(3)]
    check(core, view(op, tensors[:2], tensors[2], attributes), PAIRS, tmp_path)


@pytest.mark.parametrize("core", CORES)
def test_float_remainder(core: str, tmp_path: Path) -> None:
    tensors = [plain(i, DType.FLOAT32, PAIRS[0].shape) for i in range(3)]
    check(core, view("FLOOR_MOD", tensors[:2], tensors[2]), PAIRS, tmp_path)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(
    "op", ["ADD", "SUB", "MUL", "DIV", "FLOOR_DIV", "FLOOR_MOD", "MINIMUM", "MAXIMUM", "SQUARED_DIFFERENCE"]
)
def test_int32_pairs(core: str, op: str, tmp_path: Path) -> None:
    tensors = [
        plain(0, DType.INT32, (len(INTEGERS), 1)),
        plain(1, DType.INT32, (len(INTEGERS),)),
        plain(2, DType.INT32, (len(INTEGERS),) * 2),
    ]
    check(core, view(op, tensors[:2], tensors[2], ArithmeticAttributes()), [INTEGERS, INTEGERS], tmp_path)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("op", ["EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT64, DType.FLOAT32], ids=lambda t: t.name)
def test_comparisons(core: str, op: str, dtype: DType, tmp_path: Path) -> None:
    values = {DType.INT8: BYTES, DType.INT64: [x.astype(np.int64) << 33 for x in BYTES], DType.FLOAT32: PAIRS}[dtype]
    shape = values[0].shape
    scales = (0.03, 0.045) if dtype is DType.INT8 else (None, None)
    inputs = [tensor(i, shape, dtype, scale, 5 * i) for i, scale in enumerate(scales)]
    check(core, view(op, inputs, plain(2, DType.BOOL, shape)), values, tmp_path)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("op", ["LOGICAL_AND", "LOGICAL_OR"])
def test_logic(core: str, op: str, tmp_path: Path) -> None:
    tensors = [plain(0, DType.BOOL, (2, 1)), plain(1, DType.BOOL, (1, 2)), plain(2, DType.BOOL, (2, 2))]
    check(core, view(op, tensors[:2], tensors[2]), [[0, 1], [0, 1]], tmp_path)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT64, DType.FLOAT32], ids=lambda t: t.name)
def test_select_broadcasts(core: str, dtype: DType, tmp_path: Path) -> None:
    scale = 0.5 if dtype is DType.INT8 else None
    inputs = [plain(0, DType.BOOL, (3, 1, 5)), tensor(1, (4, 1), dtype, scale), tensor(2, (3, 4, 5), dtype, scale)]
    values = [RANDOM.integers(0, 2, 15), np.arange(4), np.arange(60) - 30]
    check(core, view("SELECT_V2", inputs, tensor(3, (3, 4, 5), dtype, scale)), values, tmp_path)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        ("MUL", DType.INT8), ("MUL", DType.INT16), ("SQUARED_DIFFERENCE", DType.INT8),
        ("SQUARED_DIFFERENCE", DType.INT16), ("PRELU", DType.INT8), ("MINIMUM", DType.INT16),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("steps", [0.9, 7.0])
def test_quantised_pairs(core: str, op: str, dtype: DType, steps: float, tmp_path: Path) -> None:
    values = BYTES if dtype is DType.INT8 else SHORTS
    unit = 0.02 if dtype is DType.INT8 else 0.00007
    largest = float(np.abs(values[0]).max())
    scale = unit * unit * largest / steps if op != "PRELU" else unit / steps
    zero_points = (-128, 127, 3) if dtype is DType.INT8 else (0, 0, 0)
    scales = (unit, unit * 0.7, scale * 4)
    if op == "MINIMUM":
        scales, zero_points = (unit,) * 3, (0,) * 3
    tensors = [
        tensor(i, values[0].shape, dtype, s, z) for i, (s, z) in enumerate(zip(scales, zero_points, strict=True))
    ]
    check(core, view(op, tensors[:2], tensors[2], ArithmeticAttributes(Activation.NONE)), values, tmp_path)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("op", ["ABS", "RSQRT", "EXP", "LOG"])
def test_int16_functions(core: str, op: str, tmp_path: Path) -> None:
    values = np.append(np.arange(0 if op == "RSQRT" else -32768, 32768, 211), 32767)
    source, output = tensor(0, values.shape, DType.INT16, 0.0002), tensor(1, values.shape, DType.INT16, 0.0007)
    check(core, view(op, [source], output), [values], tmp_path)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        ("REDUCE_MAX", DType.INT8), ("REDUCE_MIN", DType.INT16), ("REDUCE_MAX", DType.FLOAT32),
        ("REDUCE_PROD", DType.INT32), ("REDUCE_PROD", DType.FLOAT32), ("REDUCE_ANY", DType.BOOL),
        ("REDUCE_ALL", DType.BOOL), ("MEAN", DType.UINT8),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("axes", [[1], [0, -1], [0, 1, 2]], ids=str)
def test_reductions(core: str, op: str, dtype: DType, axes: list[int], tmp_path: Path) -> None:
    shape = (3, 5, 4)
    kept = tuple(size for axis, size in enumerate(shape) if axis not in [a % 3 for a in axes])
    values = RANDOM.integers(0, 2, shape) if dtype is DType.BOOL else RANDOM.integers(-100, 100, shape) % 251
    scale = 0.1 if dtype in (DType.INT8, DType.INT16, DType.UINT8) else None
    inputs = [tensor(0, shape, dtype, scale), plain(1, DType.INT32, (len(axes),), axes)]
    v = view(op, inputs, tensor(2, kept, dtype, scale), ReduceAttributes())
    check(core, v, [values.astype(dtype.numpy), axes], tmp_path)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("op", ["ARG_MAX", "ARG_MIN"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16, DType.FLOAT32], ids=lambda t: t.name)
@pytest.mark.parametrize("index", [DType.INT32, DType.INT64], ids=lambda t: t.name)
def test_positions(core: str, op: str, dtype: DType, index: DType, tmp_path: Path) -> None:
    values = RANDOM.integers(-4, 4, (2, 7, 3))
    inputs = [tensor(0, values.shape, dtype, 0.1), plain(1, DType.INT32, (), -2)]
    check(core, view(op, inputs, plain(2, index, (2, 3))), [values, [-2]], tmp_path)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [DType.INT32, DType.INT64, DType.FLOAT32], ids=lambda t: t.name)
def test_running_sums(core: str, exclusive: bool, reverse: bool, dtype: DType, tmp_path: Path) -> None:
    values = RANDOM.normal(0, 1000, (2, 5, 3)).astype(dtype.numpy)
    inputs = [plain(0, dtype, values.shape), plain(1, DType.INT32, (1,), [1])]
    v = view("CUMSUM", inputs, plain(2, dtype, values.shape), CumsumAttributes(exclusive, reverse))
    check(core, v, [values, [1]], tmp_path)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(("exclusive", "reverse"), [(False, False), (True, True)])
@pytest.mark.parametrize(("count", "scale"), [(5, 0.7), (5, 0.002), (300, 1.5)])
def test_running_sums_of_bytes(
    core: str, exclusive: bool, reverse: bool, count: int, scale: float, tmp_path: Path
) -> None:
    values = RANDOM.integers(-128, 128, (2, count, 3))
    values[0, :, 0], values[0, :, 1] = 127, -128
    inputs = [tensor(0, values.shape, scale=0.1, zero_point=-9), plain(1, DType.INT32, (1,), [1])]
    output = tensor(2, values.shape, scale=scale, zero_point=4)
    check(core, view("CUMSUM", inputs, output, CumsumAttributes(exclusive, reverse)), [values, [1]], tmp_path)


def test_sums_of_bytes_that_the_reference_overflows() -> None:
    source, axis = tensor(0, (1, 40), scale=0.1, zero_point=-9), plain(1, DType.INT32, (1,), [1])
    v = view("CUMSUM", [source, axis], tensor(2, (1, 40), scale=1.7), CumsumAttributes())
    assert "output scale 1.7 for sums up to 5576 times 0.1" in (refusal(v) or "")


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT32, DType.FLOAT32], ids=lambda t: t.name)
@pytest.mark.parametrize("count", [2, 5])
def test_sums_of_many(core: str, dtype: DType, count: int, tmp_path: Path) -> None:
    values = [RANDOM.normal(0, 60, (3, 7)).clip(-128, 127).astype(dtype.numpy) for _ in range(count)]
    scale = None if dtype is not DType.INT8 else 0.1
    inputs = [tensor(i, (3, 7), dtype, scale, 5 if scale else 0) for i in range(count)]
    check(core, view("ADD_N", inputs, tensor(count, (3, 7), dtype, scale, -3 if scale else 0)), values, tmp_path)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("op", ["MAX_POOL_2D", "AVERAGE_POOL_2D", "L2_POOL_2D"])
@pytest.mark.parametrize("activation", [Activation.NONE, Activation.RELU6])
def test_float_pools(core: str, op: str, activation: Activation, tmp_path: Path) -> None:
    values = np.resize(FLOATS, (1, 8, 13, 3)).copy()
    values[0, :4, :6] = np.nan
    values[0, 4:, :6] = -np.inf
    attributes = PoolAttributes(Padding.SAME, 2, 1, 3, 2, activation)
    output = plain(1, DType.FLOAT32, (1, 4, 13, 3))
    check(core, view(op, [plain(0, DType.FLOAT32, values.shape)], output, attributes), [values], tmp_path)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("op", ["L2_NORMALIZATION", "LOG_SOFTMAX"])
@pytest.mark.parametrize("depth", [1, 3, 300])
def test_int8_rows(core: str, op: str, depth: int, tmp_path: Path) -> None:
    values = RANDOM.integers(-128, 128, (4, depth))
    values[0], values[1] = -128, 127
    scale, zero_point = {"L2_NORMALIZATION": (1 / 128, 0), "LOG_SOFTMAX": (1 / 16, 127)}[op]
    source, output = (
        tensor(0, values.shape, scale=0.07, zero_point=3),
        tensor(1, values.shape, DType.INT8, scale, zero_point),
    )
    check(core, view(op, [source], output, ArithmeticAttributes()), [values], tmp_path)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16, DType.FLOAT32], ids=lambda t: t.name)
@pytest.mark.parametrize("adjoint", [(False, False), (True, True)], ids=str)
def test_products(core: str, dtype: DType, adjoint: tuple[bool, bool], tmp_path: Path) -> None:
    left, right = (1, 2, 3, 5), (4, 1, 5, 6)
    left, right = (s[:2] + s[:1:-1] if swap else s for s, swap in zip((left, right), adjoint, strict=True))
    limit = {DType.INT8: 128, DType.INT16: 32768}.get(dtype, 9)
    zero_points = (5, -7, 1) if dtype is DType.INT8 else (0, 0, 0)
    scales = (0.01, 0.02, 0.01 * 0.02 * 900 * (200 if dtype is DType.INT16 else 1))
    shapes = (left, right, (4, 2, 3, 6))
    tensors = [tensor(i, s, dtype, c, z) for i, (s, c, z) in enumerate(zip(shapes, scales, zero_points, strict=True))]
    values = [RANDOM.integers(-limit, limit, s) for s in (left, right)]
    check(core, view("BATCH_MATMUL", tensors[:2], tensors[2], BatchMatmulAttributes(*adjoint)), values, tmp_path)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("zero_point", [0, -7])
@pytest.mark.parametrize("adjoint", [False, True])
def test_products_with_a_constant(core: str, zero_point: int, adjoint: bool, tmp_path: Path) -> None:
    values = [RANDOM.integers(-128, 128, s) for s in ((2, 3, 5), (6, 5) if adjoint else (5, 6))]
    first = tensor(0, (2, 3, 5), DType.INT8, 0.01, 5)
    second = tensor(1, values[1].shape, DType.INT8, 0.02, zero_point, values[1])
    v = view(
        "BATCH_MATMUL", [first, second], tensor(2, (2, 3, 6), DType.INT8, 0.2, 1), BatchMatmulAttributes(False, adjoint)
    )
    check(core, v, values, tmp_path)
