# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from compiler.graph import DType
from compiler.kernels.portable.linear import Function, Linear, fit
from compiler.numerics import multiply_by_quantized_multiplier, quantize_multiplier
from compiler.ops.add import _function
from compiler.ops.arithmetic import ArithmeticAttributes
from compiler.ops.rescaling import Rescaling
from tests.unit.compiler.ops.build import tensor, view

BYTES = np.arange(-128, 128, dtype=np.int64)


def sum_of(first: float, second: float, output: float, zeros: tuple[int, int, int]) -> Function:
    v = view(
        "ADD",
        [tensor(0, (4,), scale=first, zero_point=zeros[0]), tensor(1, (4,), scale=second, zero_point=zeros[1])],
        tensor(2, (4,), scale=output, zero_point=zeros[2]),
        ArithmeticAttributes(),
    )
    return _function(v, 1)


@pytest.mark.parametrize(
    ("first", "second", "output", "zeros"),
    [
        (0.0211, 0.0558, 0.0273, (-128, 4, -128)),
        (0.5, 0.25, 0.5, (3, -7, 0)),
        (0.031, 0.0172, 0.047, (-2, 100, -128)),
        (1.0, 1.0, 1.0, (0, 0, 0)),
    ],
)
def test_a_fit_equals_the_function_everywhere(
    first: float, second: float, output: float, zeros: tuple[int, int, int]
) -> None:
    function = sum_of(first, second, output, zeros)
    linear = fit(function)
    assert linear is not None
    found = np.clip(linear(BYTES[:, None], BYTES[None, :]), function.minimum, function.maximum)
    assert np.array_equal(found, function.exact)
    start, rounding, shift, nudge = linear.constants
    total = start + linear.factors[0] * BYTES[:, None] + linear.factors[1] * BYTES[None, :]
    value = total + rounding - np.where(total < 0, nudge, 0)
    assert np.abs(total).max() < 1 << 31
    assert np.abs(value).max() < 1 << 31
    assert np.array_equal(np.clip(value >> shift, function.minimum, function.maximum), function.exact)


def test_ties_go_away_from_zero() -> None:
    quarters = Rescaling(tensor(0, (1,), scale=0.25), tensor(1, (1,), scale=1.0), 0.25, -128, 127)
    exact = quarters.reference(BYTES)
    assert exact[BYTES == -2] == -1
    assert exact[BYTES == 2] == 1
    linear = fit(Function((BYTES,), exact, (0.25,), (0,), 0, -128, 127))
    assert linear is not None
    assert np.array_equal(linear(BYTES), exact)


def test_a_nudge_lowers_negative_sums() -> None:
    nudged = Linear((1,), 0, 2, 2, 1)
    assert nudged(np.array([-2, -1, 0, 1, 2])).tolist() == [-1, 0, 0, 0, 1]
    assert nudged.constants == (0, 2, 2, 1)
    assert Linear((1,), 5, 2, 2, 0).constants == (7, 0, 2, 0)


def test_what_is_not_linear_is_not_fitted() -> None:
    assert fit(Function((BYTES,), np.abs(BYTES).clip(-128, 127), (1.0,), (0,), 0, -128, 127)) is None


@pytest.mark.parametrize("dtype", [DType.INT16, DType.INT8])
def test_rescaling_reference(dtype: DType) -> None:
    rescaling = Rescaling(tensor(0, (1,), dtype, 0.3, 5), tensor(1, (1,), dtype, 0.2, -4), 0.3 / 0.2, -100, 90)
    x = np.array([-128, 0, 5, 6, 127])
    steps = multiply_by_quantized_multiplier(x - 5, *quantize_multiplier(1.5)) - 4
    assert rescaling.reference(x).tolist() == np.clip(steps, -100, 90).tolist()
