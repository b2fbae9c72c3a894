# SPDX-License-Identifier: Apache-2.0
"""CAST between all types: what is computed at the limits, and the same bytes on cores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.graph import DType
from compiler.ops.cast import TYPES
from compiler.ops.definition import OperatorView
from tests.unit.compiler.ops.build import evaluate, tensor, view
from tests.unit.compiler.ops.together import check_together

I32, I64, FLOAT, Q8 = DType.INT32, DType.INT64, DType.FLOAT32, DType.INT8
EXTREMES = [0.0, -0.0, 0.9, -0.9, 1.5, -1.5, 127.9, -128.9, 255.5, 300.0, 2.0**31, -(2.0**31), 3e9, 4294967040.0, -3e9]
BEYOND = [2.0**63, -(2.0**63), 1e30, -1e30, np.inf, -np.inf, np.nan]


def cast(source: DType, target: DType, count: int) -> OperatorView:
    return view("CAST", [tensor(0, (count,), source, None)], tensor(1, (count,), target, None))


@pytest.mark.parametrize("source", [t for t in TYPES if t is not FLOAT], ids=lambda t: t.name)
@pytest.mark.parametrize("target", TYPES, ids=lambda t: t.name)
def test_cast_of_integers_keeps_the_low_bits(source: DType, target: DType) -> None:
    edges = [0, 1] if source is DType.BOOL else [np.iinfo(source.numpy).min, np.iinfo(source.numpy).max, 0, 1, 77]
    got = evaluate(cast(source, target, len(edges)), edges)
    if target is DType.BOOL:
        assert got.tolist() == [e != 0 for e in edges]
    elif target is FLOAT:
        assert got.tolist() == [float(np.float32(e)) for e in edges]
    else:
        bits = 8 * target.bytes
        wrapped = [int(e) & ((1 << bits) - 1) for e in edges]
        signed = np.issubdtype(target.numpy, np.signedinteger)
        assert got.tolist() == [w - (1 << bits) if signed and w >> (bits - 1) else w for w in wrapped]


def test_cast_of_floats_saturates() -> None:
    """The numbers are what TensorFlow Lite Micro gives, and TensorFlow Lite for the types that the former lacks."""
    x = [0.9, -0.9, -1.5, 127.9, -128.9, 256.0, 40000.0, -40000.0, 3e9, -3e9, 1e19, -np.inf, np.nan]
    want = {
        Q8: [0, 0, -1, 127, -128, 127, 127, -128, 127, -128, 127, -128, 0],
        DType.UINT8: [0, 0, 0, 127, 0, 255, 255, 0, 255, 0, 255, 0, 255],
        DType.INT16: [0, 0, -1, 127, -128, 256, 32767, -32768, 32767, -32768, 32767, -32768, 0],
        DType.UINT16: [0, 0, 0, 127, 0, 256, 40000, 0, 65535, 0, 65535, 0, 65535],
        I32: [0, 0, -1, 127, -128, 256, 40000, -40000, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 0],
        DType.UINT32: [0, 0, 0, 127, 0, 256, 40000, 0, 3 * 10**9, 0, 2**32 - 1, 0, 0],
        I64: [0, 0, -1, 127, -128, 256, 40000, -40000, 3 * 10**9, -3 * 10**9, 2**63 - 1, -(2**63), 2**63 - 1],
    }
    for target, numbers in want.items():
        assert evaluate(cast(FLOAT, target, len(x)), x).tolist() == numbers, target
    assert evaluate(cast(FLOAT, DType.BOOL, 4), [0.0, -0.0, 1e-45, np.nan]).tolist() == [False, False, True, True]


@pytest.mark.parametrize("core", ["cortex-m4f", "rv32imac"])
def test_casts_on_cores(core: str, tmp_path: Path) -> None:
    views, inputs = {}, []
    for source in TYPES:
        if source is FLOAT:
            x = np.array([*EXTREMES, *BEYOND], np.float32)
        elif source is DType.BOOL:
            x = np.array([0, 1, 1], np.bool_)
        else:
            limits = np.iinfo(source.numpy)
            x = np.array([limits.min, limits.max, 0, 1, limits.max // 3, limits.min // 7], source.numpy)
        for target in TYPES:
            views[f"{source.name} to {target.name}"] = cast(source, target, x.size)
            inputs.append(x)
    check_together(core, views, inputs, tmp_path)
