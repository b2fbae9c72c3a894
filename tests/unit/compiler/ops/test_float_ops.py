# SPDX-License-Identifier: Apache-2.0
"""Softmax, sigmoids, conversions and rectifiers: what they accept, and vectors from the reference interpreters."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.graph import DType
from compiler.ops.fully_connected import FullyConnectedAttributes
from compiler.ops.leaky_relu import LeakyReluAttributes
from compiler.ops.softmax import SoftmaxAttributes
from tests.unit.compiler.ops.build import evaluate, refusal, tensor, view

ROW = (1, 4)


def test_leaky_relu_multipliers_are_computed_in_double_precision() -> None:
    x = np.array([4338, 13013, 13014, 21688, 30366, -30000], np.int16)
    source = tensor(0, x.shape, DType.INT16, 9.154599683824927e-05)
    output = tensor(1, x.shape, DType.INT16, 9.15354466997087e-05)
    found = evaluate(view("LEAKY_RELU", [source], output, LeakyReluAttributes(0.1)), x)
    np.testing.assert_array_equal(found, [4338, 13014, 13015, 21690, 30369, -3000])


@pytest.mark.parametrize(
    ("kinds", "scale", "zero_point", "got"),
    [
        ((DType.INT8, DType.INT8), 1 / 256, 0, "zero point 0"),
        ((DType.INT8, DType.INT8), 1 / 128, -128, "scale 0.0078125"),
        ((DType.INT8, DType.UINT8), 1 / 256, 0, "output UINT8"),
        ((DType.INT16, DType.INT16), 1 / 65536, 0, "scale 1.52588e-05"),
    ],
)
def test_softmax_refuses_other_outputs(kinds: tuple[DType, DType], scale: float, zero_point: int, got: str) -> None:
    source, output = tensor(0, ROW, kinds[0], 0.1), tensor(1, ROW, kinds[1], scale, zero_point)
    message = refusal(view("SOFTMAX", [source], output, SoftmaxAttributes()))
    assert message is not None and got in message


def test_softmax_refuses_rows_whose_sum_may_overflow() -> None:
    source, output = tensor(0, (1, 4096), DType.INT8, 0.1), tensor(1, (1, 4096), DType.INT8, 1 / 256, -128)
    assert "4096" in str(refusal(view("SOFTMAX", [source], output, SoftmaxAttributes())))


@pytest.mark.parametrize(("op", "zero_point"), [("LOGISTIC", 0), ("TANH", -128)])
def test_sigmoids_refuse_other_outputs(op: str, zero_point: int) -> None:
    source, output = tensor(0, ROW, DType.INT8, 0.1), tensor(1, ROW, DType.INT8, 1 / 256, zero_point)
    assert f"zero point {zero_point}" in str(refusal(view(op, [source], output)))


def test_half_floats_become_floats_at_build_time_only() -> None:
    output = tensor(1, ROW, DType.FLOAT32, None)
    values = np.array([0.1, -65504.0, 6e-8, np.inf], np.float16)
    constant = view("DEQUANTIZE", [tensor(0, ROW, DType.FLOAT16, None, data=values)], output)
    assert refusal(constant) is None
    np.testing.assert_array_equal(evaluate(constant)[0], values.astype(np.float32))
    message = refusal(view("DEQUANTIZE", [tensor(0, ROW, DType.FLOAT16, None)], output))
    assert message is not None and "computed at run time" in message


def test_quantize_rounds_ties_away_from_zero_and_saturates() -> None:
    source, output = tensor(0, (1, 7), DType.FLOAT32, None), tensor(1, (1, 7), DType.INT8, 0.5, 10)
    x = np.array([0.25, -0.25, 0.24999999, 58.3, 1e30, -np.inf, -0.0], np.float32)
    np.testing.assert_array_equal(evaluate(view("QUANTIZE", [source], output), x)[0], [11, 9, 10, 127, 127, -128, 10])


def test_hybrid_rows_are_quantised_by_themselves() -> None:
    """Each row has its own scale, so a row's outputs do not depend on the others."""
    weights = tensor(1, (2, 3), DType.INT8, 0.5, data=[[1, 2, 3], [-4, 5, -6]])
    x = np.array([[1.0, -0.5, 0.25], [1000.0, 3.0, -200.0]], np.float32)

    def outputs(rows: np.ndarray) -> np.ndarray:
        source, output = (tensor(i, (len(rows), n), DType.FLOAT32, None) for i, n in ((0, 3), (2, 2)))
        v = view("FULLY_CONNECTED", [source, weights], output, FullyConnectedAttributes())
        assert refusal(v) is None
        return np.asarray(evaluate(v, rows))

    np.testing.assert_array_equal(outputs(x), np.concatenate([outputs(x[:1]), outputs(x[1:])]))
    np.testing.assert_allclose(outputs(x), x @ (0.5 * weights.constant.T), rtol=0.02)
