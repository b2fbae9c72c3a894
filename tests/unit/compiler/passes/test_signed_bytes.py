# SPDX-License-Identifier: Apache-2.0
"""Legacy uint8 graphs as int8 ones: what is converted, and that the bytes are those of unsigned arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.graph import DType, Graph, Operator, Tensor
from compiler.numerics import multiply_by_quantized_multiplier, quantize_multiplier
from compiler.ops.arithmetic import ArithmeticAttributes
from compiler.ops.conv_2d import Conv2DAttributes
from compiler.ops.fully_connected import FullyConnectedAttributes
from compiler.ops.geometry import Padding
from compiler.ops.pooling import PoolAttributes
from compiler.passes import run_passes
from compiler.reference import outputs_of
from compiler.support import check_supported
from tests.unit.compiler.ops.build import tensor

VALID = Conv2DAttributes(Padding.VALID, 1, 1)
POOL = PoolAttributes(Padding.VALID, 2, 2, 2, 2)


def graph(tensors: list[Tensor], operators: list[Operator], outputs: tuple[int, ...]) -> Graph:
    return Graph("test", {t.index: t for t in tensors}, tuple(operators), (0,), outputs)


def byte(index: int, *shape: int, scale: float = 0.5, zero_point: int = 3, data: Any = None) -> Tensor:
    return tensor(index, shape, DType.UINT8, scale, zero_point, data)


def convolution(weights: Any, zero_point: int, rest: list[Tensor], operators: list[Operator], last: int) -> Graph:
    """0 -> CONV_2D -> 2, then `operators`, on a 1x4x4x2 image."""
    tensors = [byte(0, 1, 4, 4, 2), byte(1, 3, 1, 1, 2, scale=0.02, zero_point=zero_point, data=weights)]
    first = Operator(0, "CONV_2D", (0, 1), (2,), VALID)
    return graph([*tensors, byte(2, 1, 4, 4, 3, scale=0.7, zero_point=90), *rest], [first, *operators], (last,))


def kinds(g: Graph) -> list[str]:
    return [op.op for op in g.operators]


@pytest.mark.parametrize(("weights", "zero_point"), [([0, 255, 7, 100, 128, 30], 101), ([90, 150, 0, 200, 99, 1], 120)])
def test_a_convolution_gives_the_bytes_of_unsigned_arithmetic(weights: list[int], zero_point: int) -> None:
    after = run_passes(convolution(weights, zero_point, [], [], 2))
    check_supported(after, "test")
    assert kinds(after) == ["QUANTIZE", "CONV_2D", "QUANTIZE"]
    x = np.random.default_rng(1).integers(0, 256, (1, 4, 4, 2)).astype(np.uint8)
    sums = (x.astype(int) - 3) @ (np.reshape(weights, (3, 2)) - zero_point).T
    scale = float(np.float32(0.5) * np.float32(0.02)) / 0.7
    expected = np.clip(multiply_by_quantized_multiplier(sums, *quantize_multiplier(scale)) + 90, 0, 255)
    np.testing.assert_array_equal(outputs_of(after, [x])[0], expected)


def test_weights_that_fit_stay_int8_and_others_become_int16() -> None:
    small, large = ([127, 1, 2, 3, 4, 5], 0), ([127, 1, 2, 3, 4, 129], 0)
    for (weights, zero_point), dtype in ((small, DType.INT8), (large, DType.INT16)):
        after = run_passes(convolution(weights, zero_point, [], [], 2))
        layer = after.operators[1]
        assert after.tensor(layer.inputs[1]).dtype is dtype
        np.testing.assert_array_equal(after.tensor(layer.inputs[1]).constant.reshape(-1), weights)


def test_nothing_is_converted_between_two_converted_operators() -> None:
    rest = [byte(3, 1, 48, scale=0.7, zero_point=90), byte(4, 1, 48, scale=0.9, zero_point=80)]
    shape = tensor(5, (2,), DType.INT32, None, data=[1, 48])
    operators = [Operator(1, "RESHAPE", (2, 5), (3,)), Operator(2, "ADD", (3, 3), (4,), ArithmeticAttributes())]
    after = run_passes(convolution([1, 2, 3, 4, 5, 6], 3, [*rest, shape], operators, 4))
    assert kinds(after) == ["QUANTIZE", "CONV_2D", "RESHAPE", "ADD", "QUANTIZE"]


def test_a_tensor_that_a_uint8_operator_or_output_reads_is_restored_once() -> None:
    rest = [byte(3, 1, 4, 4, 3, scale=1 / 256, zero_point=0), byte(4, 1, 4, 4, 3, scale=1 / 256, zero_point=0)]
    operators = [Operator(1, "LOGISTIC", (2,), (3,)), Operator(2, "TANH", (2,), (4,))]
    before = convolution([1, 2, 3, 4, 5, 6], 3, rest, operators, 2)
    after = run_passes(Graph("test", before.tensors, before.operators, (0,), (2, 3)))
    assert kinds(after) == ["QUANTIZE", "CONV_2D", "QUANTIZE", "LOGISTIC"]
    assert after.operators[3].inputs == (2,)


def test_bytes_without_quantisation_stay() -> None:
    tensors = [tensor(0, (1, 4), DType.UINT8, None), tensor(1, (4, 1), DType.UINT8, None)]
    shape = tensor(2, (2,), DType.INT32, None, data=[4, 1])
    before = graph([*tensors, shape], [Operator(0, "RESHAPE", (0, 2), (1,))], (1,))
    assert run_passes(before).operators == before.operators


def test_an_average_rounds_ties_up() -> None:
    before = graph([byte(0, 1, 2, 2, 1), byte(1, 1, 1, 1, 1)], [Operator(0, "AVERAGE_POOL_2D", (0,), (1,), POOL)], (1,))
    after = run_passes(before)
    for values in ([1, 1, 0, 0], [3, 2, 2, 3], [255, 254, 254, 255], [0, 0, 0, 1], [9, 9, 9, 8]):
        (found,) = outputs_of(after, [np.reshape(values, (1, 2, 2, 1)).astype(np.uint8)])
        assert found.item() == (sum(values) + 2) // 4


def test_a_fully_connected_layer_rounds_once_in_double() -> None:
    weights = byte(1, 1, 2, scale=0.5, zero_point=4, data=[[5, 3]])
    output = byte(2, 1, 1, scale=0.5, zero_point=100)
    layer = Operator(0, "FULLY_CONNECTED", (0, 1), (2,), FullyConnectedAttributes())
    after = run_passes(graph([byte(0, 1, 2), weights, output], [layer], (2,)))
    check_supported(after, "test")
    for a, b in ((4, 3), (3, 4), (6, 3), (3, 6), (255, 0), (0, 255), (9, 9)):
        (found,) = outputs_of(after, [np.array([[a, b]], np.uint8)])
        half = abs(a - b) + 1 >> 1
        assert found.item() == np.clip(100 + (half if a > b else -half), 0, 255)
