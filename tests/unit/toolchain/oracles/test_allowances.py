# SPDX-License-Identifier: Apache-2.0
"""Every allowance by the smallest model that needs it: the runtime does differ there, in the way that is stated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from compiler.compile import as_stated
from compiler.graph import DType
from compiler.model import Model
from compiler.reference import tensors_of_rows
from tests.fuzz.draft import Draft
from tests.fuzz.stateful import lstm
from tests.tflite_files import FileOperator, FileSubgraph, FileTensor, tflite_file
from toolchain.oracles.allowances import EXPECTED, OTHER_SHAPES
from toolchain.oracles.cross_check import Computed, Finding, cross_check
from toolchain.oracles.runtimes import Oracle, find_oracles
from toolchain.rows import Samples

ORACLES = {oracle.kernels: oracle for oracle in find_oracles()}
Made = tuple[bytes, NDArray[Any]]
"""A model with one input, and rows for it."""


def finding(kernels: str, made: Made) -> Finding:
    """What the runtime's answer is called. Skips where it is not installed."""
    oracle: Oracle | None = ORACLES.get(kernels)
    if oracle is None:
        pytest.skip(f"{kernels} is not installed (requirements-oracle.lock)")
    data, rows = made
    model = Model("minimal.tflite", data)
    graph = as_stated(model)
    tensors = tensors_of_rows(graph, zip(rows, strict=True))
    outputs = [tensors[i] for i in graph.outputs]
    (found,) = cross_check([Computed(graph, data, Samples((rows,), (), None), tensors, outputs)], oracle)
    assert found.refusal is None
    return found


def rows_of(dtype: str, *shape: int, rows: int = 2) -> NDArray[Any]:
    """Rows over the whole range of the type."""
    info = np.iinfo(dtype)
    return np.random.default_rng(5).integers(info.min, info.max + 1, (rows, *shape)).astype(dtype)


def unary(
    op: str, dtype: str, source: float, target: float, zero_points: tuple[int, int] = (0, 0), **options: float
) -> Made:
    """The operator over all values of the type."""
    info = np.iinfo(dtype)
    values = np.arange(info.min, info.max + 1, dtype=dtype).reshape(1, 1, -1)
    tensors = [
        FileTensor("x", values.shape[1:], dtype, source, zero_point=zero_points[0]),
        FileTensor("y", values.shape[1:], dtype, target, zero_point=zero_points[1]),
    ]
    table = "LeakyReluOptions" if options else ""
    return tflite_file(tensors, [FileOperator(op, (0,), (1,), table, options)], (0,), (1,)), values


def sums(op: str) -> Made:
    """Sums from 4,096 input steps on, which the left shift by 20 of the kernels takes out of 32 bits."""
    if op == "ADD_N":
        tensors = [FileTensor("x", (1, 2), scale=0.5), FileTensor("y", (1, 2), scale=16.0)]
        operator = FileOperator("ADD_N", (0,) * 40, (1,))
        return tflite_file(tensors, [operator], (0,), (1,)), np.full((1, 1, 2), 127, np.int8)
    tensors = [
        FileTensor("x", (1, 40), scale=0.5),
        FileTensor("axis", (1,), "int32", data=np.array([1], np.int32)),
        FileTensor("y", (1, 40), scale=16.0),
    ]
    operator = FileOperator("CUMSUM", (0, 1), (2,), "CumsumOptions")
    return tflite_file(tensors, [operator], (0,), (2,)), np.full((1, 1, 40), 127, np.int8)


def layer(op: str, dtype: str = "int16", bias: str = "int32") -> Made:
    """One layer of 4 channels over [1, 3, 3, 4] (FULLY_CONNECTED: [4096, 4]), which the bias moves."""
    dense = op == "FULLY_CONNECTED"
    shape = {"CONV_2D": (4, 1, 1, 4), "TRANSPOSE_CONV": (4, 1, 1, 4), "DEPTHWISE_CONV_2D": (1, 1, 1, 4)}.get(op, (4, 4))
    source = (4096, 4) if dense else (1, 3, 3, 4)
    random = np.random.default_rng(3)
    weights = random.integers(-127, 128, shape).astype(np.int8)
    scale, weight_scale = (2.0**-12, 0.01) if dtype == "int16" else (0.05, 0.01)
    target = 2.0**-12 if dtype == "int16" else 0.07
    biases = np.array([900, -800, 700, 500]) * (100 if dtype == "int16" else 1)
    tensors = [
        FileTensor("x", source, dtype, scale),
        FileTensor("weights", shape, scale=weight_scale, data=weights),
        FileTensor("bias", (4,), bias, scale * weight_scale, data=biases.astype(bias)),
        FileTensor("y", source, dtype, target),
        FileTensor("shape", (4,), "int32", data=np.array([1, 3, 3, 4], np.int32)),
    ]
    inputs = (4, 1, 0, 2) if op == "TRANSPOSE_CONV" else (0, 1, 2)
    table, options = {
        "CONV_2D": ("Conv2DOptions", {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}),
        "DEPTHWISE_CONV_2D": (
            "DepthwiseConv2DOptions",
            {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1, "DepthMultiplier": 1},
        ),
        "TRANSPOSE_CONV": ("TransposeConvOptions", {"StrideH": 1, "StrideW": 1}),
        "FULLY_CONNECTED": ("FullyConnectedOptions", {}),
    }[op]
    rows = rows_of(dtype, *source)
    return tflite_file(tensors, [FileOperator(op, inputs, (3,), table, options)], (0,), (3,)), rows


def padded() -> Made:
    ints = np.array([2, 2], np.int32)
    tensors = [
        FileTensor("x", (1, 3, 3, 1), scale=0.5, zero_point=7),
        FileTensor("block", (2,), "int32", data=ints),
        FileTensor("pads", (2, 2), "int32", data=np.array([[0, 1], [0, 1]], np.int32)),
        FileTensor("y", (4, 2, 2, 1), scale=0.5, zero_point=7),
    ]
    operator = FileOperator("SPACE_TO_BATCH_ND", (0, 1, 2), (3,), "SpaceToBatchNDOptions")
    return tflite_file(tensors, [operator], (0,), (3,)), rows_of("int8", 1, 3, 3, 1)


def summed() -> Made:
    tensors = [
        FileTensor("x", (1, 8), scale=0.5, zero_point=-5),
        FileTensor("axis", (1,), "int32", data=np.array([1], np.int32)),
        FileTensor("y", (1,), scale=2.0),
    ]
    return tflite_file(tensors, [FileOperator("SUM", (0, 1), (2,), "ReducerOptions")], (0,), (2,)), rows_of(
        "int8", 1, 8
    )


def svdf() -> Made:
    random = np.random.default_rng(4)
    tensors = [
        FileTensor("x", (1, 4), scale=0.05),
        FileTensor("feature", (3, 4), scale=0.01, data=random.integers(-127, 128, (3, 4)).astype(np.int8)),
        FileTensor("time", (3, 5), scale=0.01, data=random.integers(-127, 128, (3, 5)).astype(np.int8)),
        FileTensor("bias", (3,), "int32", 0.0005, data=np.array([100, -200, 300], np.int32)),
        FileTensor("state", (1, 15), scale=0.05, is_variable=True),
        FileTensor("y", (1, 3), scale=0.03),
    ]
    operator = FileOperator("SVDF", (0, 1, 2, 3, 4), (5,), "SVDFOptions", {"Rank": 1, "FusedActivationFunction": 1})
    return tflite_file(tensors, [operator], (0,), (5,)), rows_of("int8", 1, 4, rows=6)


def recurrent() -> Made:
    draft = Draft(np.random.default_rng(4))
    draft.inputs = [draft.add((1, 6, 5), "int8", scale=0.05)]
    draft.frontier = list(draft.inputs)
    assert lstm(draft, 0, draft.tensors[0])
    return draft.finish([]), rows_of("int8", 1, 6, 5)


MINIMAL: Mapping[tuple[str, str, DType, str], Callable[[], Made]] = {
    ("tflm", "ADD_N", DType.INT8, "overflow"): lambda: sums("ADD_N"),
    ("tflm", "CUMSUM", DType.INT8, "overflow"): lambda: sums("CUMSUM"),
    ("tflm", "DEPTHWISE_CONV_2D", DType.INT16, "int32 bias"): lambda: layer("DEPTHWISE_CONV_2D"),
    ("tflm", "RELU6", DType.INT8, "rescale"): lambda: unary("RELU6", "int8", 0.1, 0.05, (3, -9)),
    ("tflm", "RELU6", DType.INT16, "rescale"): lambda: unary("RELU6", "int16", 0.001, 0.0005),
    ("tflm", "SPACE_TO_BATCH_ND", DType.INT8, "value to pad"): padded,
    ("tflm", "TRANSPOSE_CONV", DType.INT16, "int32 bias"): lambda: layer("TRANSPOSE_CONV"),
    ("litert", "CONV_2D", DType.INT16, "quantized_bias_type"): lambda: layer("CONV_2D"),
    ("litert", "FULLY_CONNECTED", DType.INT16, "quantized_bias_type"): lambda: layer("FULLY_CONNECTED"),
    ("litert", "FULLY_CONNECTED", DType.INT8, "in double"): lambda: layer("FULLY_CONNECTED", "int8"),
    ("litert", "FULLY_CONNECTED", DType.INT16, "in double"): lambda: layer("FULLY_CONNECTED", "int16", "int64"),
    ("litert", "LEAKY_RELU", DType.INT16, "float32"): lambda: unary("LEAKY_RELU", "int16", 0.0017, 0.0005, Alpha=0.3),
    ("litert", "LOGISTIC", DType.INT8, "rounded floats"): lambda: unary(
        "LOGISTIC", "int8", 0.01434502936899662, 1 / 256, (11, -128)
    ),
    ("litert", "RELU", DType.INT16, "float32"): lambda: unary(
        "RELU", "int16", 0.0013004179345443845, 0.0005583518650382757
    ),
    ("litert", "SUM", DType.INT8, "uint8"): summed,
    ("litert", "SVDF", DType.INT8, "int8 for int16"): svdf,
    ("litert", "UNIDIRECTIONAL_SEQUENCE_LSTM", DType.INT8, "polynomials"): recurrent,
}
"""By kernel set, operator, type, and what the reason says."""


@pytest.mark.parametrize("case", MINIMAL, ids=lambda case: "-".join(str(part) for part in case).replace(" ", "_"))
def test_it_differs_for_the_reason_that_is_stated(case: tuple[str, str, DType, str]) -> None:
    kernels, op, dtype, why = case
    found = finding(kernels, MINIMAL[case]())
    assert found.first is not None, "the runtime does not differ: the allowance is not needed"
    assert found.first.view.operator.op == op and found.first.tensor.dtype is dtype
    assert found.reason is not None and why in found.reason, str(found)


def test_every_allowance_has_its_model() -> None:
    listed = [(*key, a.dtype, a.why) for key, allowances in EXPECTED.items() for a in allowances]
    shown = [[key for key in MINIMAL if key[:3] == row[:3] and key[3] in row[3]] for row in listed]
    assert [len(keys) for keys in shown] == [1] * len(listed), "one model each"
    assert len(MINIMAL) == len(listed)


def collected(open_sizes: bool) -> Made:
    """A WHILE that puts the input's rows, doubled, into a sequence [4, 2]: what lies before the row, the row, and what
    lies behind. `open_sizes` leaves the sizes of those parts open, and stores 1, as converters do; else each iteration
    replaces all."""

    def int32(name: str, *values: int, scalar: bool = False) -> FileTensor:
        return FileTensor(name, () if scalar else (len(values),), "int32", data=np.array(values, np.int32))

    def floats(name: str, *shape: int, signature: tuple[int, ...] = ()) -> FileTensor:
        return FileTensor(name, shape, "float32", signature=signature)

    counter = FileTensor("counter", (), "int32")
    condition = FileSubgraph(
        [
            counter, floats("sequence", 4, 2), floats("x", 4, 2), int32("limit", 4, scalar=True),
            FileTensor("go", (), "bool"),
        ],
        [FileOperator("LESS", (0, 3), (4,))], (0, 1, 2), (4,),
    )  # fmt: skip
    tensors = [
        counter, floats("sequence", 4, 2), floats("x", 4, 2), int32("one", 1, scalar=True),
        FileTensor("next", (), "int32"), floats("row", 2), int32("row_shape", 1, 2), floats("rows", 1, 2),
        floats("doubled", 1, 2), int32("vector", 1), FileTensor("count", (1,), "int32"), int32("columns", 2),
        FileTensor("before_size", (2,), "int32"), int32("zeros", 0, 0), floats("before", 1, 2, signature=(-1, 2)),
        FileTensor("next_count", (1,), "int32"), int32("zero", 0), FileTensor("behind_begin", (2,), "int32"),
        int32("to_the_end", -1, -1), floats("behind", 1, 2, signature=(-1, 2)), floats("after", 4, 2),
    ]  # fmt: skip
    number = {tensor.name: i for i, tensor in enumerate(tensors)}

    def step(op: str, inputs: str, output: str, table: str = "", **options: Any) -> FileOperator:
        return FileOperator(op, tuple(number[n] for n in inputs.split()), (number[output],), table, options)

    operators = [
        step("ADD", "counter one", "next", "AddOptions"),
        step("GATHER", "x counter", "row", "GatherOptions"),
        step("RESHAPE", "row row_shape", "rows"),
        step("ADD", "rows rows", "doubled", "AddOptions"),
    ]
    if open_sizes:
        operators += [
            step("RESHAPE", "counter vector", "count"),
            step("CONCATENATION", "count columns", "before_size", "ConcatenationOptions", Axis=0),
            step("SLICE", "sequence zeros before_size", "before"),
            step("RESHAPE", "next vector", "next_count"),
            step("CONCATENATION", "next_count zero", "behind_begin", "ConcatenationOptions", Axis=0),
            step("SLICE", "sequence behind_begin to_the_end", "behind"),
            step("CONCATENATION", "before doubled behind", "after", "ConcatenationOptions", Axis=0),
        ]
    else:
        operators.append(
            step("CONCATENATION", "doubled doubled doubled doubled", "after", "ConcatenationOptions", Axis=0)
        )
    body = FileSubgraph(tensors, operators, (0, 1, 2), (number["next"], number["after"], 2))
    main = [
        floats("x", 4, 2), int32("first", 0, scalar=True),
        FileTensor("empty", (4, 2), "float32", data=np.zeros((4, 2), np.float32)),
        FileTensor("last", (), "int32"), floats("y", 4, 2), floats("x_after", 4, 2),
    ]  # fmt: skip
    loop = FileOperator("WHILE", (1, 2, 0), (3, 4, 5), "WhileOptions", {"CondSubgraphIndex": 1, "BodySubgraphIndex": 2})
    data = tflite_file(main, [loop], (0,), (4,), further=[condition, body])
    return data, np.arange(1, 9, dtype=np.float32).reshape(1, 4, 2)


def test_a_loop_whose_sizes_are_open_is_litert_s() -> None:
    made = collected(open_sizes=True)
    found = finding("tflm", made)
    assert found.differs and found.reason == OTHER_SHAPES and not found.contradicts
    assert not finding("litert", made).differs


def test_a_loop_of_fixed_sizes_is_no_exception() -> None:
    made = collected(open_sizes=False)
    assert not finding("tflm", made).differs and not finding("litert", made).differs
