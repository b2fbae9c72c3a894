# SPDX-License-Identifier: Apache-2.0
"""Real models on every core under QEMU: each row's bytes are the golden ones, and so is the tensor before SOFTMAX."""

from __future__ import annotations

from pathlib import Path

import pytest

from boards.loader import load_board
from compiler.compile import compile_graph
from tests.harness import core_boards, run
from tests.zoo.golden import FLOAT, INTEGER, SHIPPED, STATEFUL, UINT8, load
from toolchain.target import target_of

# Two core classes run every integer model each time; the rest of the product is the sweep.
FAST_CORES = ("cortex-m4f", "rv32imac")
FAST_OTHERS = (
    ("cortex-m0", "mnist_int8"),
    ("cortex-m0", "mlperf_kws_dscnn_int8"),
    ("cortex-m0", "mnist_float"),
    ("cortex-m3", "mlperf_kws_dscnn_int8"),
    ("cortex-m4", "mnist_float"),
    ("cortex-m7", "mnist_int8"),
    ("cortex-m33", "mnist_int8"),
    ("cortex-m55", "mlperf_ic_resnet_int8"),
    ("cortex-m55", "mlperf_kws_dscnn_int8"),
    ("cortex-m55", "mnist_int16x8"),
    ("cortex-m55", "mww_v2_vad"),
    ("rv32imafc", "mnist_float"),
    ("rv32imafc", "mnist_int8"),
    ("rv32ec", "mnist_nano_int8"),
    ("rv32ec", "mnist_mlp_int8"),
    ("rv32ec", "mnist_int8"),
)
MODELS = (*SHIPPED, *INTEGER, *FLOAT, *STATEFUL)
FAST = [(core, model) for core in FAST_CORES for model in (*MODELS, *UINT8)] + list(FAST_OTHERS)
ALL = [(core, model) for core in core_boards() for model in MODELS]
SWEEP = sorted(set(ALL) - set(FAST))


def check(core: str, name: str, folder: Path, rows: int | None) -> None:
    case = load(name)
    compiled = compile_graph(case.graph, case.model, target_of(load_board(core_boards()[core]).core))
    wanted = case.rows[:rows]
    for row, found in enumerate(run(compiled, wanted, folder, seconds=900)):
        case.check(row, found)


@pytest.mark.parametrize(("core", "name"), FAST)
def test_model(core: str, name: str, tmp_path: Path) -> None:
    slow = name in (*UINT8, "mlperf_ic_resnet_float", "mlperf_vww_mobilenet_int8", "tflm_person_detect_int8")
    check(core, name, tmp_path, 2 if slow else None)


@pytest.mark.sweep
@pytest.mark.parametrize(("core", "name"), SWEEP)
def test_model_on_other_cores(core: str, name: str, tmp_path: Path) -> None:
    check(core, name, tmp_path, None)
