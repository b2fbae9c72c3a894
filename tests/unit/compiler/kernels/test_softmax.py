# SPDX-License-Identifier: Apache-2.0
"""Softmax kernels on emulated cores give the reference's bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.graph import DType
from compiler.ops.softmax import SoftmaxAttributes, lower, reference
from tests.harness import isa_of, run_layer
from tests.unit.compiler.ops.build import tensor, view

SLOWER = ("cortex-m4f", "rv32imac", "rv32ec")
CORES = ("cortex-m0", "rv32imafc", *(pytest.param(core, marks=pytest.mark.sweep) for core in SLOWER))
OUTPUTS = {
    (DType.INT8, DType.INT8): (1 / 256, -128),
    (DType.UINT8, DType.UINT8): (1 / 256, 0),
    (DType.INT8, DType.INT16): (1 / 65536, -32768),
    (DType.INT16, DType.INT16): (1 / 32768, 0),
    (DType.FLOAT32, DType.FLOAT32): (None, 0),
}


def rows_of(dtype: DType, depth: int) -> list[np.ndarray]:
    rng = np.random.default_rng(depth)
    if dtype is DType.FLOAT32:
        special = np.zeros(depth, np.float32)
        special[-1] = np.inf
        scales = (1e-3, 1.0, 30.0, 1e4)
        return [*(rng.normal(size=depth).astype(np.float32) * np.float32(s) for s in scales), special, -special]
    low, high = np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max
    cliff = np.full(depth, low)
    cliff[depth // 2] = high
    rows = [rng.integers(low, high + 1, depth), rng.integers(-20, 20, depth) + 40, np.full(depth, low), cliff]
    return [np.clip(r, low, high).astype(dtype.numpy) for r in rows]


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("depth", [1, 10, 130])
@pytest.mark.parametrize(("source", "target"), OUTPUTS, ids=lambda t: t.name)
def test_softmax(core: str, source: DType, target: DType, depth: int, tmp_path: Path) -> None:
    scale, zero_point = OUTPUTS[source, target]
    rows = np.stack(rows_of(source, depth))
    scales = (0.07, 2.3) if source in (DType.INT8, DType.UINT8) else (0.0003,)
    for number, input_scale in enumerate(scales):
        x = tensor(0, rows.shape, source, None if scale is None else input_scale)
        v = view("SOFTMAX", [x], tensor(1, rows.shape, target, scale, zero_point), SoftmaxAttributes(1.5))
        (expected,) = reference(v, [rows])
        outputs = [(target, rows.shape)]
        ((found,),) = run_layer(core, lower(v, isa_of(core)), [[rows]], outputs, tmp_path / str(number))
        if source is DType.FLOAT32:
            np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
            found, expected = np.nan_to_num(found), np.nan_to_num(expected)
        np.testing.assert_array_equal(found, expected)
