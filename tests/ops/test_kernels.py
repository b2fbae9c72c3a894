# SPDX-License-Identifier: Apache-2.0
"""Compiled operators give the golden bytes: every model on two kinds of core and on this machine here, on all cores in
the sweep."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ops.models import case, names
from tests.ops.outcomes import CORES, Verdict, outcomes
from tests.support import shared_dir

FAST_CORES = ("cortex-m4f", "rv32imac", "host")
PARTS = 3
"""So many programs a core: they run side by side."""
OTHER_CORES = ("cortex-m0", "cortex-m55", "rv32ec")
OTHERS = (
    "add__i16", "avgpool_3x2_s2x1_same__i8", "conv_3x3_same_relu__i16", "dw_3x3_m2__i8", "fb_conv_u8_legacy",
    "fb_fc_i16_b32", "fb_lstm_i8", "fb_mean_i8_rescale", "fb_requant_i8_i16_500", "fb_svdf_i8_r1", "maxpool_2x2__i8",
    "net_attention__i8", "net_se_block__i8", "softmax_10__i8",
)  # fmt: skip


def check(core: str, chosen: list[str], folder: Path) -> None:
    """All models but refused ones match; what fails is told at once."""
    shared_dir("ops")
    found = list(outcomes(core, chosen, case, folder))
    assert any(outcome.verdict is Verdict.MATCHED for outcome in found)
    failing = [f"{o.name}: {o.reason}" for o in found if o.verdict is Verdict.FAILING]
    assert not failing, "\n".join(failing)


@pytest.mark.parametrize("core", FAST_CORES)
@pytest.mark.parametrize("part", range(PARTS))
def test_kernels(core: str, part: int, tmp_path: Path) -> None:
    check(core, names()[part::PARTS], tmp_path)


@pytest.mark.parametrize("core", OTHER_CORES)
def test_kernels_on_other_cores(core: str, tmp_path: Path) -> None:
    check(core, list(OTHERS), tmp_path)


@pytest.mark.sweep
@pytest.mark.parametrize("core", CORES)
def test_every_kernel(core: str, tmp_path: Path) -> None:
    check(core, names(), tmp_path)
