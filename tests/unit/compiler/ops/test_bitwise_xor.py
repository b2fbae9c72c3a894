# SPDX-License-Identifier: Apache-2.0
"""BITWISE_XOR: the reference by NumPy's own operator, compiled code by the reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.graph import DType
from compiler.ops import operators
from tests.harness import isa_of, run_layer
from tests.unit.compiler.ops.build import evaluate, refusal, tensor, view

FIRST = np.array([[0, 1, -1], [-(1 << 31), (1 << 31) - 1, 0x0F0F0F0F]], np.int32)
SECOND = np.array([[-1, 0x55555555, 7]], np.int32)


@pytest.mark.parametrize("core", ["cortex-m0", "rv32imac"])
def test_all_bits_with_broadcasting(core: str, tmp_path: Path) -> None:
    inputs = [tensor(i, x.shape, DType.INT32, None) for i, x in enumerate((FIRST, SECOND))]
    v = view("BITWISE_XOR", inputs, tensor(2, FIRST.shape, DType.INT32, None))
    assert refusal(v) is None
    wanted = FIRST ^ SECOND
    assert np.array_equal(evaluate(v, FIRST, SECOND), wanted)
    lowered = operators()["BITWISE_XOR"].lower(v, isa_of(core))
    ((found,),) = run_layer(core, lowered, [[FIRST, SECOND]], [(DType.INT32, FIRST.shape)], tmp_path)
    assert np.array_equal(found, wanted)


def test_other_types_are_refused() -> None:
    x, y = (tensor(i, (4,), DType.FLOAT32, None) for i in (0, 1))
    assert "FLOAT32" in (refusal(view("BITWISE_XOR", [x, x], y)) or "")
