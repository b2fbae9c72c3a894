# SPDX-License-Identifier: Apache-2.0
"""Whole float and hybrid networks on emulated cores, with and without a float unit, against the golden outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from boards.loader import load_board
from compiler.compile import compile_graph
from compiler.frontends.tflite import read_tflite
from compiler.model import Model
from compiler.passes import run_passes
from tests.harness import core_boards, run
from tests.support import shared_dir
from toolchain.target import target_of

ROWS = 2
RANGE_PART = 1e-4
"""Float outputs of deep networks stay within this part of the largest output."""
NETWORKS = (
    "tflm_hello_world_float",
    "mlperf_kws_dscnn_float",
    "mlperf_ic_resnet_float",
    "mlperf_ad_toycar_dynrange",
    "tum_catdog_2l_quant",
)
CORES = ("cortex-m4f", "rv32imafc", "cortex-m0", "rv32imac")


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("name", NETWORKS)
def test_network(core: str, name: str, tmp_path: Path) -> None:
    folder = shared_dir("zoo")
    data = (folder / "models" / f"{name}.tflite").read_bytes()
    graph = run_passes(read_tflite(data, name))
    golden = np.load(folder / "golden" / f"{name}.npz")
    tensors = [graph.tensor(i) for i in graph.inputs]
    rows = [
        [golden[f"in{i}"][row].reshape(t.shape).astype(t.dtype.numpy) for i, t in enumerate(tensors)]
        for row in range(ROWS)
    ]
    model = compile_graph(graph, Model(f"{name}.tflite", data), target_of(load_board(core_boards()[core]).core))
    for (found,), expected in zip(run(model, rows, tmp_path), golden["out0"], strict=False):
        tolerance = RANGE_PART * float(np.abs(golden["out0"]).max())
        np.testing.assert_allclose(found, expected.reshape(found.shape), rtol=0, atol=tolerance)
