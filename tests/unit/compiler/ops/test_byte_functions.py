# SPDX-License-Identifier: Apache-2.0
"""Every int8 and uint8 operator of one input over all 256 inputs, for 20 pairs of scales and zero points: within what
the roundings of its steps allow of the real function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from compiler.graph import DType
from compiler.ops.activation import INTEGER_RANGE
from compiler.ops.gelu import GeluAttributes
from compiler.ops.leaky_relu import LeakyReluAttributes
from tests.unit.compiler.ops.build import evaluate, refusal, tensor, view

PAIRS = 20
ALPHA = 0.3
TWICE = 0.75
"""The reference rounds to a half or a quarter of a step first, and then that to a step."""


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _inverse_root(x: float) -> float:
    return 1 / math.sqrt(x) if x > 0 else math.inf


FUNCTIONS: dict[str, tuple[Callable[[float], float], Any, float]] = {
    "ABS": (abs, None, TWICE),
    "ELU": (lambda x: x if x > 0 else math.expm1(x), None, 0.5),
    "EXP": (math.exp, None, 0.5),
    "GELU": (lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2, GeluAttributes(), 0.5),
    "HARD_SWISH": (lambda x: x * min(max(x + 3, 0), 6) / 6, None, 1.5),
    "LEAKY_RELU": (lambda x: x if x > 0 else ALPHA * x, LeakyReluAttributes(ALPHA), TWICE),
    "LOG": (_log, None, 0.5),
    "RELU": (lambda x: max(x, 0.0), None, TWICE),
    "RELU6": (lambda x: min(max(x, 0.0), 6.0), None, 1.0),
    "RSQRT": (_inverse_root, None, TWICE),
    "SQRT": (lambda x: math.sqrt(max(x, 0.0)), None, 1.0),
}
"""The real function, the attributes, and the steps by which the output may differ from the real value."""
SLACK = 0.02
"""What fixed-point multipliers and double rounding add."""


def scales_and_zero_points(dtype: DType) -> list[tuple[float, int, float, int]]:
    random, (lowest, highest) = np.random.default_rng(11), INTEGER_RANGE[dtype]
    found = []
    for _ in range(PAIRS):
        scale, out_scale = (float(np.float32(2.0**exponent)) for exponent in random.uniform(-7, -2, 2))
        zero_point, out_zero_point = (int(z) for z in random.integers(lowest, highest + 1, 2))
        found.append((scale, zero_point, out_scale, out_zero_point))
    return found


@pytest.mark.parametrize(
    ("op", "dtype"),
    [(op, DType.INT8) for op in FUNCTIONS] + [(op, DType.UINT8) for op in ("HARD_SWISH", "LEAKY_RELU", "RELU")],
    ids=str,
)
def test_all_inputs(op: str, dtype: DType) -> None:
    function, attributes, steps = FUNCTIONS[op]
    lowest, highest = INTEGER_RANGE[dtype]
    values = np.arange(lowest, highest + 1)
    for scale, zero_point, out_scale, out_zero_point in scales_and_zero_points(dtype):
        zero_point = lowest if op in ("RSQRT", "SQRT") else zero_point
        v = view(
            op,
            [tensor(0, (256,), dtype, scale, zero_point)],
            tensor(1, (256,), dtype, out_scale, out_zero_point),
            attributes,
        )
        assert refusal(v) is None
        real = np.array([function(scale * int(q - zero_point)) for q in values])
        want = np.clip(real / out_scale + out_zero_point, lowest, highest)
        found = evaluate(v, values).astype(np.float64)
        assert np.abs(found - want).max() <= steps + SLACK, (op, scale, zero_point, out_scale, out_zero_point)


def test_neg_wraps_like_the_reference() -> None:
    v = view("NEG", [tensor(0, (3,), DType.INT8, 0.5)], tensor(1, (3,), DType.INT8, 0.5))
    assert evaluate(v, [-128, 127, 0]).tolist() == [-128, -127, 0]
