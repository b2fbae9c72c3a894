# SPDX-License-Identifier: Apache-2.0
"""How many instructions an inference takes does not depend on its input: kernels branch on no data."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from compiler.compile import compile_model
from compiler.model import Model
from qemu.profile import plugin_options, read_counts
from tests import harness
from tests.support import ROOT, shared_dir

INPUTS = 100
SHARE = 0.001
MLPERF = (
    "mlperf_ad_autoencoder_int8",
    "mlperf_ic_resnet_int8",
    "mlperf_kws_dscnn_int8",
    "mlperf_vww_mobilenet_int8",
)


def check(path: Path, core: str, folder: Path, seconds: int) -> None:
    model = compile_model(Model(path.name, path.read_bytes()), harness.target_for(core))
    random = np.random.default_rng(4)
    rows = [[random.integers(-128, 128, port.shape).astype(np.int8) for port in model.inputs] for _ in range(INPUTS)]
    image = harness.build(model, rows, folder)
    options = plugin_options(image.elf, model.prefix, len(model.dispatches), folder / "counts")
    subprocess.run([*image.command, "-plugin", str(options.plugin)], cwd=folder, check=True, timeout=seconds)
    totals = [count.total for count in read_counts(folder / "counts", len(model.dispatches))]
    assert len(totals) == INPUTS
    assert max(totals) - min(totals) <= SHARE * min(totals), (min(totals), max(totals))


@pytest.mark.parametrize("core", ["cortex-m4f", "rv32imac"])
def test_digits(core: str, tmp_path: Path) -> None:
    check(ROOT / "models" / "mnist_int8.tflite", core, tmp_path, 120)


@pytest.mark.sweep
@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4f", "cortex-m55", "rv32imac"])
@pytest.mark.parametrize("name", MLPERF)
def test_mlperf(name: str, core: str, tmp_path: Path) -> None:
    check(shared_dir() / "zoo" / "models" / f"{name}.tflite", core, tmp_path, 1800)
